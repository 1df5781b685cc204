"""Run the command line as ``python -m postprocess.cli``."""

from postprocess.cli import main

if __name__ == '__main__':
    main()
