"""The environment that the tests were started in, for the commands that they start as a user does.

Test modules, and libraries as they are imported, set variables of this process (scikit-learn KMP_DUPLICATE_LIB_OK, for
one). Those are not a user's. So tests/conftest.py, which pytest reads before any test module, imports this first.
"""

import os
from collections.abc import Mapping
from types import MappingProxyType

ENVIRONMENT: Mapping[str, str] = MappingProxyType(dict(os.environ))
