"""The configuration of a run: the schema of conf/, its composition, and the identity of a measurement.

This module itself needs no Hydra.
"""

import re


def quoted(text: str) -> str:
    """Return the text as a value in Hydra's grammar that is read as this text, whatever is in it.

    In a quoted value only a quote and the backslashes before it have a meaning. OmegaConf interpolates ${...} in any
    value.
    """
    text = re.sub(r"(\\*)\$\{", lambda match: f"{match[1] * 2}\\${{", text)
    return "'" + re.sub(r"(\\*)('|\Z)", lambda match: match[1] * 2 + match[2].replace("'", r"\'"), text) + "'"
