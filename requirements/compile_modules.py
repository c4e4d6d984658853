"""Compile the modules below a folder that are not compiled yet, on all cores: python compile_modules.py FOLDER

As pip does, it leaves out what is no Python of this version: templates, and tests of syntax errors.
"""

import compileall
import os
import sys

if __name__ == "__main__":
    compileall.compile_dir(sys.argv[1], quiet=2, workers=len(os.sched_getaffinity(0)))
