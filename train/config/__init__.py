"""What a run is: the schema of conf/, composing it, and what makes two runs the same measurement.

This module has what all that names values of conf/ need, also without Hydra.
"""

import re


def quoted(text: str) -> str:
    """Return the text as a value in Hydra's grammar which is read as this text, whatever is in it.

    Of a quoted value, only a quote and the backslashes before it have a meaning there; of any value, OmegaConf
    interpolates ${...}.
    """
    text = re.sub(r"(\\*)\$\{", lambda match: f"{match[1] * 2}\\${{", text)
    return "'" + re.sub(r"(\\*)('|\Z)", lambda match: match[1] * 2 + match[2].replace("'", r"\'"), text) + "'"
