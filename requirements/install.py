"""Set up a virtual environment from the locks in this folder; needs only Python's standard library.

    python3.11 requirements/install.py cpu .venv

What the arguments mean, and the set-up itself, is in requirements/installation.py. This file only says when Python is
too old to read that one, so it is written for Python 3.6.
"""

import needed_python

needed_python.check()

import installation  # noqa: E402

installation.main()
