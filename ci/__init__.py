"""The jobs around a ReFrame run; started by the scripts of this folder."""

from plumbline.paths import add_library

add_library()
