# gpus.sh   samples the GPUs of this node every two seconds, until the run of this folder has its exit code
#
# prints DEVICE MHZ WATT CELSIUS, the devices in the order of their PCI addresses; - for what the node does not tell

nvidia() {
    nvidia-smi --query-gpu=index,clocks.sm,power.draw,temperature.gpu --format=csv,noheader,nounits | sed 's/\[[^]]*\]/-/g; s/,//g'
}

# one FACTOR FILE...: the number in the first of the files that can be read, divided by the factor
one() {
    local factor=$1 file number
    for file in "${@:2}"; do
        { read -r number < "$file"; } 2> /dev/null && { echo $((number / factor)); return; }
    done
    echo -
}

amd() { # Documentation/gpu/amdgpu/thermal.rst of Linux: Hz, microwatts, thousandths of a degree
    local folder device=0
    for folder in /sys/bus/pci/drivers/amdgpu/*:*/hwmon/hwmon*; do
        [ -e "$folder" ] || continue
        echo "$((device++)) $(one 1000000 "$folder/freq1_input") $(one 1000000 "$folder"/power1_{average,input}) \
$(one 1000 "$folder/temp1_input")"
    done
}

while [ ! -e exit_code ] && kill -0 "$PPID"; do
    if command -v nvidia-smi > /dev/null; then nvidia; else amd; fi
    sleep 2
done 2> /dev/null
