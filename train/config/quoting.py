"""Texts as values in Hydra's grammar."""

import re


def quoted(text: str) -> str:
    """Return the text as a value in Hydra's grammar which is read as this text, whatever is in it.

    Of a quoted value, only a quote and the backslashes before it have a meaning there; of any value, OmegaConf
    interpolates ${...}.
    """
    text = re.sub(r"(\\*)\$\{", lambda match: f"{match[1] * 2}\\${{", text)
    return "'" + re.sub(r"(\\*)('|\Z)", lambda match: match[1] * 2 + match[2].replace("'", r"\'"), text) + "'"
