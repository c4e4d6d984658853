"""Tables as their authors published them, and as people keep them (tests/golden/ordinary, with TRUTH.md there).

Each is read as a person reads it, or the reader asks and is told.

published.jsonl has what a person reads: one curve a line, its file, a part of its setting, its machine and ranks, and
the printed values by quantity; and in `columns` the answer of the reader's with which it reads them, "" at first sight.
"""

import functools
import json
import re
from pathlib import Path

import pytest

from analysis import TableError
from analysis.user_table import table_contract
from tests.helpers import GOLDEN

pytestmark = pytest.mark.slow  # reads all of them

FOLDER = Path(__file__).with_name("published")
CURVES = [json.loads(line) for line in FOLDER.with_suffix(".jsonl").read_text().splitlines()]
# Files that are not read: other formats, no headers, several conditions in one cell, codes, ranges.
REFUSED = {
    "alphaexa.md", "arcface.md", "box.md", "bsc_lab11.txt", "bsc_no_headers.txt", "cascade_rcnn.md", "cellpose.md",
    "colossal.md", "dbnet.md", "dlperf_megatron.md", "dlperf_wdl.md", "dlperf_zero.md", "docling.md",
    "documents.md", "fabric.md", "faster_rcnn.md", "ferro.md", "fleet_matching.md", "fleet_resnet.rst", "forge.md",
    "gpt_codes.md", "llava.md", "opensora.md", "ordinary/14-gpu-id.csv", "retinanet.md", "rtx5090.md", "te.md",
    "t5x.md", "tensorpack_horovod.md", "torchtitan_titles.md", "vast.md", "video.md", "vit.md", "zero.md",
}  # fmt: skip
OTHERS = {"README.md", "TRUTH.md", "adaptdl_imagenet.csv"}


@functools.cache
def read(name, columns):
    """The table, or None, and the answers that the reader proposes."""
    try:
        result = table_contract.read_table((GOLDEN if name.startswith("ordinary/") else FOLDER) / name, columns)
        text = "\n".join(result.notes)
    except TableError as error:
        result, text = None, str(error)
    return result, [answer for answer in re.findall(r'COLUMNS="([^"]*)"', text) if answer != columns]


def holds(runs, curve):
    """Whether the runs have the values of a curve."""
    if curve["setting"] and "setting" in runs:
        runs = runs[runs["setting"].str.lower().str.contains(curve["setting"].lower(), regex=False)]
    if curve["machine"] and "machine" in runs:
        runs = runs[runs["machine"].eq(curve["machine"])]
    runs = runs.head(len(curve["ranks"]))
    names = [name for name in curve if name not in ("file", "columns", "setting", "machine")]
    return {*names} <= {*runs} and all(
        runs[name].tolist() == (curve[name] if isinstance(curve[name][0], str) else pytest.approx(curve[name]))
        for name in names
    )


def answers(columns):
    """The name of each header in a text of COLUMNS."""
    return dict(part.rsplit("=", 1) for part in re.split(",(?=[^=]*=)", columns) if part)


@pytest.mark.on_change_of("analysis/user_table/", "analysis/table/")
@pytest.mark.parametrize("curve", CURVES, ids=[f"{curve['file']} {curve['setting']}" for curve in CURVES])
def test_one_curve_of_each_table(curve):
    """From one question to the next an answer is offered that leads to the known values."""
    columns, known = "", answers(curve["columns"])
    while answers(columns) != known:
        named = {offer: answers(offer) for offer in read(curve["file"], columns)[1]}
        leading = [
            offer
            for offer, names in named.items()
            if {*names} <= {*known} and all(name in (known[header], "measured") for header, name in names.items())
        ]
        if not leading:
            break  # it is read
        columns = max(leading, key=lambda offer: (len({*named[offer].items()} & {*known.items()}), len(offer)))
    assert holds(read(curve["file"], columns)[0].runs, curve), columns


def test_each_file_is_read_asked_about_or_refused():
    known = {Path(curve["file"]).name for curve in CURVES}
    files = {path.name for folder in (FOLDER, GOLDEN / "ordinary") for path in folder.iterdir()}
    assert files == known | {Path(name).name for name in REFUSED} | OTHERS
    for name in REFUSED:
        assert read(name, "")[0] is None, name


def test_step_times_of_nodes_and_replicas_in_the_last_row():
    *others, last = table_contract.read_table(FOLDER / "adaptdl_imagenet.csv").runs.to_dict("records")
    assert len(others) == 17
    assert (last["nodes"], last["ranks_per_node"], last["ranks"], last["batch_per_rank"]) == (16, 4, 64, 200)
    assert last["images_per_s"] == pytest.approx(200 * 64 / 1.0868985652923584)


def test_tables_that_do_not_scale_are_named_in_one_line():
    (note,) = [note for note in table_contract.read_table(FOLDER / "deepwalk.md").notes if "no column of ranks" in note]
    assert "deepwalk.md: not used: tables at lines 3, 9: no column of ranks" in note
