"""The font of the figures, with no more glyphs than figures need.

A PDF embeds the glyphs that it shows. Cutting them out of the whole DejaVu Sans, which has 6,000, takes longer than
drawing the figure; cutting them out of a part of it takes a quarter of that. Both look the same.
"""

import functools
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import matplotlib as mpl
from fontTools import subset
from matplotlib import font_manager

_WHOLE = "DejaVu Sans"
_PART = "DejaVu Sans Part"
_FILES = {"normal": "DejaVuSans.ttf", "bold": "DejaVuSans-Bold.ttf"}  # that Matplotlib brings, by their weights
# Latin 1, dashes and quotation marks, minus. The whole font has all other characters.
_CHARACTERS = [*range(0x20, 0x7F), *range(0xA0, 0x100), *range(0x2010, 0x2027), 0x2212]
_FAMILY_NAMES = (1, 16)  # in a font's table of names


@contextmanager
def quick_to_embed() -> Iterator[None]:
    """Within this context figures use the part of the font, and the whole one for characters that it does not have."""
    _register()
    with mpl.rc_context({"font.family": [_PART, _WHOLE]}):
        yield


@functools.cache
def _register() -> tempfile.TemporaryDirectory[str]:
    """Makes the parts, and registers them with Matplotlib; returns their folder, which lives as long as the process."""
    folder = tempfile.TemporaryDirectory(prefix="fonts-")
    for weight in _FILES:
        font_manager.fontManager.addfont(_part(weight, Path(folder.name)))
    return folder


def _part(weight: str, folder: Path) -> Path:
    """The file, in `folder`, of the font with few characters, under a family name of its own.

    Made from the font that Matplotlib brings: another version, which the system may have, has other glyphs.
    """
    options = subset.Options(drop_tables=["FFTM"])  # a time stamp, which fontTools does not know
    font = subset.load_font(str(Path(mpl.get_data_path(), "fonts", "ttf", _FILES[weight])), options)
    cut = subset.Subsetter(options)
    cut.populate(unicodes=_CHARACTERS)
    cut.subset(font)
    for name in font["name"].names:
        if name.nameID in _FAMILY_NAMES:
            name.string = _PART
    path = folder / f"{weight}.ttf"
    font.save(path)
    return path
