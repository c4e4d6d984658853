from pathlib import Path

import pytest

from analysis.audit import identities
from analysis.user_table import table


def contradictions(tmp_path: Path, header: str, rows: str) -> list[tuple[str, str]]:
    """Return what a table states and what follows, of each contradiction in it."""
    file = tmp_path / "study.csv"
    file.write_text("\n".join([header, *rows.split("; ")]) + "\n")
    return [(f.stated, f.follows.partition(" = ")[0]) for f in identities.contradictions(table.read(file, ""))]


@pytest.mark.parametrize(
    ("header", "clean", "wrong", "expected"),
    [
        (
            "GPUs,images/s per GPU,images/s",
            "1,100,100; 2,95.3,191; 4,90.2,361",  # 2 x 95.3 = 190.6, 4 x 90.2 = 360.8
            "1,100,100; 2,95.3,191; 4,90.2,380",
            ("images_per_s 380", "360.8"),
        ),
        (
            "GPUs,batch per GPU,global batch,images/s",
            "1,32,64,100; 2,32,128,190; 4,32,256,360",  # accumulated: twice in a step
            "1,32,64,100; 2,32,128,190; 4,32,240,360",
            ("global_batch 240", "256"),
        ),
        (
            "nodes,GPUs per node,GPUs,images/s",
            "1,4,4,100; 2,4,8,190; 4,4,16,360",
            "1,4,4,100; 2,4,8,190; 4,4,12,360",
            ("ranks 12", "16"),
        ),
        (
            "GPUs,epochs,epoch time [s],training time [s]",
            "1,10,100,1010; 2,10,52,530; 4,10,27,310",  # with evaluation and start
            "1,10,100,1010; 2,10,52,530; 4,10,27,210",
            ("wall_s 210", "270"),
        ),
        (
            "GPUs,images/s,speedup",
            "1,100,4.0; 2,195,7.8; 4,385,15.4",
            "1,100,4.0; 2,195,7.8; 4,385,9.4",
            ("speedup 9.4", "15.4"),
        ),
        (
            "GPUs,speedup,efficiency",
            "1,1.0,1.0; 2,1.9,0.95; 4,3.6,0.90",
            "1,1.0,1.0; 2,1.9,0.95; 4,3.6,0.80",
            ("efficiency 0.8", "0.9"),
        ),
    ],
)
def test_a_number_that_does_not_follow_is_named_and_a_clean_table_is_not(tmp_path, header, clean, wrong, expected):
    assert contradictions(tmp_path, header, clean) == []
    assert contradictions(tmp_path, header, wrong) == [expected]


def test_an_efficiency_that_is_the_ratio_of_times_in_weak_scaling_is_not_named(tmp_path):
    assert contradictions(tmp_path, "GPUs,speedup,efficiency", "1,1.0,1.0; 2,0.95,0.95; 4,0.90,0.90") == []


def test_a_base_with_another_batch_is_the_one_that_states_one(tmp_path):
    header = "GPUs,batch per GPU,images/s,speedup,efficiency"
    assert contradictions(tmp_path, header, "1,64,120,1.0,1.0; 2,32,190,1.58,0.79; 4,32,360,3.0,0.75") == []
    wrong = contradictions(tmp_path, header, "1,64,120,1.0,1.0; 2,32,190,1.58,0.79; 4,32,360,3.6,0.90")
    assert wrong == [("speedup 3.6", "3")]


def test_each_identity_is_among_those_that_a_table_allows(tmp_path):
    file = tmp_path / "study.csv"
    file.write_text("GPUs,speedup,efficiency\n1,1,1\n2,1.9,0.95\n")
    assert [identity.name for identity in identities.checkable(table.read(file, ""))] == ["efficiency_of_speedup"]
