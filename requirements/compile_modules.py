"""Compile the modules below a folder that are not compiled yet, on all cores: python compile_modules.py FOLDER

Leaves out what no command imports: tests, and Keras 3, in whose place tf_keras is used; and, as pip does, what is no
Python of this version. It makes up a third.
"""

import compileall
import os
import re
import sys

_NOT_IMPORTED = re.compile(r"/tests?/|/site-packages/keras/")

if __name__ == "__main__":
    compileall.compile_dir(sys.argv[1], rx=_NOT_IMPORTED, quiet=2, workers=len(os.sched_getaffinity(0)))
