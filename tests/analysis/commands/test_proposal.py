import re

import pytest

from analysis.__main__ import main
from tests.helpers.own_studies import long_curve

pytestmark = pytest.mark.slow


def test_one_or_two_pages_and_a_page_of_html(tmp_path, capsys):
    long_curve(tmp_path / "results", "weak_scaling", (1, 0.95, 0.91, 0.88))
    long_curve(tmp_path / "results", "strong_scaling", (1, 0.92, 0.80, 0.60), strong=True)
    folder = tmp_path / "figures"
    job = ["--images", "1281167", "--epochs", "90", "--runs", "3"]
    assert main(["proposal", "--results", str(tmp_path / "results"), "--out", str(folder), *job]) == 0
    assert "(2 pages)" in capsys.readouterr().out
    pdf = (folder / "proposal.pdf").read_bytes()
    assert pdf.startswith(b"%PDF")
    assert len(re.findall(rb"/Type /Page\b", pdf)) == 2
    page = (folder / "proposal.html").read_text()
    assert page.count("<svg") == 1
    assert page.count('class="predicted"') == 8  # two sizes of two curves, in two tables
    assert "115,305,030 images; 3 of them" in page
    assert "threshold 75 %" in page


def test_a_threshold_is_a_fraction(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["proposal", "--results", str(tmp_path), "--threshold", "75"])
    assert "must be a fraction" in capsys.readouterr().err
