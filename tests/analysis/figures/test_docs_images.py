"""The pictures of the pages: shown somewhere, and each says which code drew it."""

import re
from functools import partial

import pytest
from PIL import Image

from analysis.figures import figure_files, registry
from analysis.study import Study
from record.this_kit import ROOT

IMAGES = sorted((ROOT / "docs/images").glob("*.png"))
OF_PUBLISHED_NUMBERS = ("000-explained",)


@pytest.mark.parametrize("image", IMAGES, ids=lambda image: image.stem)
def test_a_picture_is_on_a_page_and_names_the_digest_of_the_code_that_drew_it(image, record_property):
    digest = re.fullmatch(r"code ([0-9a-f]{12})", Image.open(image).info.get("Source", ""))
    assert digest, f"{image.name}: draw it again; `Source` in a PNG of make figures names the code"
    record_property("drawn by code", digest[1])
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    assert any(f"images/{image.name}" in page.read_text() for page in pages)


@pytest.mark.slow
@pytest.mark.parametrize("id", OF_PUBLISHED_NUMBERS)
def test_a_picture_of_published_numbers_alone_is_as_the_code_draws_it_today(id, tmp_path):
    entry, study = registry.figures(Study().local)[id], Study()
    figure_files.save(id, partial(entry.draw, entry.points(study)), tmp_path, ("png",), small=True)
    drawn, shown = (Image.open(folder / f"{id}.png") for folder in (tmp_path, ROOT / "docs/images"))
    assert drawn.tobytes() == shown.tobytes()
