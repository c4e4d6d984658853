"""Set up a virtual environment from the locks in this folder; needs only Python's standard library.

    python3.11 requirements/install.py cpu .venv

What the arguments mean, and the set-up itself, is in requirements/installation.py. This file only says when Python is
too old to read that one, so it is written for Python 3.6.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [_HERE, os.path.dirname(_HERE)]

from train.tools import needed_python  # noqa: E402

needed_python.check()

import installation  # noqa: E402

installation.main()
