import io
import subprocess

import pandas as pd
import pytest

from analysis import proposal
from analysis.proposal import JobPlan, document
from analysis.proposal.facts import BLANK
from analysis.study import Study
from tests.helpers.needs import needs
from tests.helpers.run_records import make_program, save

pytestmark = pytest.mark.slow


PROBLEM = "100 % of a_b, {1} & more \\input{x} 漢≤\u202e <script>alert(1)</script>"


def content(folder, unit="cells/s", scaling="weak", rates=(100.0, 190.0), plan=None):
    """Return the proposal of a program that was launched six times on 1 and 2 nodes, with rates alike."""
    for repeat in range(6):
        for nodes, rate in enumerate(rates, 1):
            problem = {
                "program": {"name": "my_solver", "command": "./my_solver", "scaling": scaling, "problem": PROBLEM}
            }
            save(make_program(nodes, rate * (1 + 0.001 * repeat), unit, scaling, repeat, **problem), folder)
    return proposal.proposal(Study(folder), ("scaling",), plan or JobPlan())


def test_a_program_keeps_its_unit_and_has_no_batch(tmp_path):
    text = document.markdown(content(tmp_path))
    assert "| cells/s |" in text
    assert "A run processes 1,000,000 cells (IMAGES=" in text
    assert "the measurements support 2 nodes" in text
    assert not [word for word in ("images/s", "batch a rank", "tensorflow", "horovod 0") if word in text]
    assert f"| target machine, if another | {BLANK} |" in text
    assert "Weak scaling (constant work of each rank)" in text


def test_a_fixed_problem_is_strong_scaling(tmp_path):
    """95 % of the ideal on two nodes."""
    strong = content(tmp_path, scaling="strong")
    (curve,) = strong.curves
    assert (curve.kind, curve.name, curve.rows[0].batch) == ("strong", "my_solver", None)
    assert curve.rows[1].efficiency.value == pytest.approx(0.95, rel=0.001)
    assert "Strong scaling (constant problem of the whole job)" in document.markdown(strong)


def test_what_the_audit_contradicts_supports_nothing(tmp_path):
    """Three times the rate on two nodes; 1.9 times in the first test."""
    text = document.markdown(content(tmp_path, scaling="strong", rates=(100.0, 300.0)))
    assert "no number of nodes is supported, because the audit contradicts" in text
    assert "a speedup of 3x by cells/s, at most 2x" in text
    assert "the measurements support" not in text


def test_a_rate_per_day_gives_hours(tmp_path):
    """48 ns at 96 ns/day take 12 h; on two nodes at 192 ns/day 6 h, so 12 node and 12 core hours; three runs 36."""
    days = content(tmp_path, "ns/day", "strong", rates=(96.0, 192.0), plan=JobPlan(48, 3, True))
    rows = pd.read_csv(io.StringIO(document.table(days)))[:2]  # those that were measured
    assert rows["hours"].tolist() == pytest.approx([12, 6], rel=0.003)
    assert rows["core_hours"].tolist() == rows["node_hours"].tolist() == pytest.approx([12, 12], rel=0.003)
    assert rows["launch_s"].tolist() == [10, 10]
    assert rows["process_memory_bytes"].tolist() == [2**30, 2**30]
    hours = next(section for section in document.sections(days) if section.title == "Hours of the application")
    assert hours.rows[0]["core hours, 3 runs"].startswith("35.9")


@needs("pdflatex")
def test_latex_is_translated(tmp_path):
    text = document.latex(content(tmp_path))
    assert r"100 \% of a\_b, \{1\} \& more \textbackslash{}input\{x\} U+6F22U+2264U+202E" in text
    assert r"\midrule" in text
    (tmp_path / "p.tex").write_text(text.replace(r"\includegraphics[width=\textwidth]{proposal-scaling.pdf}", ""))
    done = subprocess.run(["pdflatex", "-halt-on-error", "p.tex"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]
