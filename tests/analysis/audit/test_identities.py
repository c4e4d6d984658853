import re
from pathlib import Path

import pytest

from analysis.audit import identities
from analysis.user_table import table_contract


def contradictions(tmp_path: Path, header: str, rows: str) -> list[tuple[str, str]]:
    """Return what a table states and what follows, of each contradiction in it."""
    file = tmp_path / "study.csv"
    file.write_text("\n".join([header, *rows.split("; ")]) + "\n")
    table = table_contract.read_table(file, "")
    return [(f.stated, f.follows.partition(" = ")[0]) for f in identities.contradictions(table)]


# A table with a number that follows ~ one that does not, and what is said of it.
CASES = [
    # 2 x 95.3 = 190.6, 4 x 90.2 = 360.8
    ("GPUs,images/s per GPU,images/s", "1,100,100; 2,95.3,191; 4,90.2,361~380", "images_per_s 380", "360.8"),
    # accumulated: twice in a step
    ("GPUs,batch per GPU,global batch,img/s", "1,32,64,100; 2,32,128,190; 4,32,256~240,360", "global_batch 240", "256"),
    ("nodes,GPUs per node,GPUs,images/s", "1,4,4,100; 2,4,8,190; 4,4,16~12,360", "ranks 12", "16"),
    # with evaluation and start
    ("GPUs,epochs,epoch time [s],training time [s]", "1,10,100,1010; 4,10,27,310~210", "wall_s 210", "270"),
    ("GPUs,images/s,speedup", "1,100,4.0; 2,195,7.8; 4,385,15.4~9.4", "speedup 9.4", "15.4"),
    ("GPUs,speedup,efficiency", "1,1.0,1.0; 2,1.9,0.95; 4,3.6,0.90~0.80", "efficiency 0.8", "0.9"),
    ("GPUs,images/s per GPU,efficiency", "1,100,100%; 2,95,95%; 4,90,90%~96%", "efficiency 0.96", "0.9"),
    ("GPUs,images/s,low,high", "1,100,98,103; 2,190,185~192,190~195; 4,360,360,371", "images_per_s 190", "192"),
    # 4 x 99 and 4 x 93
    ("GPUs,images/s per GPU,low,high", "1,100,98,103; 2,95,92,97; 4,90~99,87,93", "images_per_s 396", "372"),
    # the 64 images of a step; timed in another way
    ("GPUs,batch per GPU,images/s,step time (s)", "1,64,100,0.64; 2,64,200,0.70~0.90", "step_s 0.9", "0.64"),
    # 50,000 images
    ("GPUs,images/s,epoch time (s)", "1,100,500; 2,190,263~500", "epoch_s 500", "263.16"),
    # a start that takes long
    ("GPUs,total images/s,training time (s),images", "1,100,500,50000; 2,190,3000~100,50000", "wall_s 100", "263.16"),
    # 163 / 93 = 1.753: 1.74 to 1.77
    ("GPUs,time (s),speedup", "1,163,1; 2,93,1.75~1.72; 4,47,3.47", "speedup 1.72", "1.7527"),
    ("GPUs,time (s),efficiency", "1,163,100%; 2,93,88%; 4,47,87%~95%", "efficiency 0.95", "0.86702"),
    # 128 / 70, of a time that is not used
    ("ranks,hook_s,speedup,wall_s", "1,128,1,140; 2,70,1.75~1.83,80", "speedup 1.83", "1.75"),
    # A ratio of one is exempt only on the fewest ranks.
    ("GPUs,batch per GPU,images/s,efficiency", "1,64,100,1; 2,64,190,0.95~1.00; 4,64,360,0.90", "efficiency 1", "0.95"),
    # A base with another batch is the one that states one.
    (
        *(
            "GPUs,batch per GPU,images/s,speedup,efficiency",
            "1,64,120,1,1; 2,32,190,1.58,.79; 4,32,360,3.0~3.6,.75~.90",
        ),
        *("speedup 3.6", "3"),
    ),
]


@pytest.mark.parametrize(("header", "rows", "stated", "follows"), CASES)
def test_a_number_that_does_not_follow_is_named_and_a_clean_table_is_not(tmp_path, header, rows, stated, follows):
    clean, wrong = (re.sub(r"([^,~;]+)~([^,~;]+)", rf"\{which}", rows) for which in (1, 2))
    assert contradictions(tmp_path, header, clean) == []
    assert contradictions(tmp_path, header, wrong) == [(stated, follows)]


@pytest.mark.parametrize(
    ("header", "rows"),
    [
        ("GPUs,speedup,efficiency", "1,1.0,1.0; 2,0.95,0.95; 4,0.90,0.90"),  # of times in weak scaling
        ("GPUs,time (s),speedup", "1,163,1; 2,165,1.98; 4,170,3.84"),  # weak scaling: 4 x 163 / 170
        ("GPUs,time (s),efficiency", "1,163,100%; 2,165,99%; 4,170,96%"),
        ("GPUs,time (s),speedup", "1,1.3975,1.05; 2,0.5858,2.51; 4,0.8408,1.75"),  # over a serial program
        ("GPUs,setup,time (s),speedup", "1,one,60,1; 4,several,17,3.5; 8,several,9,6.7"),  # a base in another row
        ("GPUs,images/s,time (s),speedup", "1,100,163,1; 2,190,93,1.75; 4,360,47,3.47"),  # of times, beside rates
        ("GPUs,batch per GPU,images/s,efficiency", "1,64,100,1; 2,64,190,.95; 2,32,150,1; 4,32,270,.9"),  # two bases
        ("GPUs,batch per GPU,global batch,images/s", "1,32,128,100; 2,32,128,190; 4,32,128,360"),  # accumulated
        ("nodes,batch per GPU,global batch,images/s", "1,32,256,100; 2,16,256,190"),  # of eight GPUs
        ("GPUs,images/s,images/s per GPU,low,high", "1,100,100,98,103; 2,190,95,93,97"),  # of one GPU
        ("GPUs,total tok/s,epoch time (s)", "1,100,500; 2,190,500"),  # tokens are no images
    ],
)
def test_what_may_mean_something_else_is_not_named(tmp_path, header, rows):
    assert contradictions(tmp_path, header, rows) == []


def test_each_identity_is_among_those_that_a_table_allows(tmp_path):
    def names(header, row):
        (tmp_path / "study.csv").write_text(f"{header}\n1,{row}\n2,{row.replace('100,100', '190,95')}\n")
        return {
            identity.name for identity in identities.checkable(table_contract.read_table(tmp_path / "study.csv", ""))
        }

    assert names("GPUs,speedup,efficiency", "1.9,0.95") == {"efficiency"}
    assert names("GPUs,images/s per GPU,speedup", "100,1.9") == {"speedup"}
    stated = "nodes,GPUs per node,epochs,images,time (s),epoch time (s),job time (s),batch per GPU,global batch"
    measured = "images/s,images/s per GPU,low,high,step time (s),speedup,efficiency"
    every = names(f"GPUs,{stated},{measured}", "1,1,3,50000,90,30,95,64,64,100,100,98,102,0.64,1.9,0.95")
    assert every == {identity.name for identity in identities.IDENTITIES}
