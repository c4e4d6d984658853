import math
import re

import pytest

from analysis import TableError
from analysis.user_table import table_contract

CURVE = {"ranks": [1, 2, 4], "images_per_s": [100, 190, 360], "speedup": [1, 1.9, 3.6]}
# The subject of the test, the table, what COLUMNS says, and the values of columns of its runs.
READ = [
    ("the rate of a rank", "GPUs,images/s per GPU,global batch\n1,100,32\n4,95,128\n", "",
     {"images_per_s": [100, 380], "batch_per_rank": [32, 32]}),
    ("a batch that shrinks", "GPUs,batch,img/s\n1,128,100\n2,64,190\n4,32,360\n", "",
     {"batch_per_rank": [128, 64, 32]}),
    ("steps a second with a batch", "GPUs,batch per GPU,it/s\n1,32,3\n2,32,2.5\n", "", {"images_per_s": [96, 160]}),
    ("weak scaling of times", "GPUs,time (s)\n1,100\n2,103\n", "scaling=weak", {"scaling": ["weak"] * 2}),
    ("counts of a unit", "GPUs,speedup\n1x GPU,1x\n2x GPU,1.9x\n", "", {"ranks": [1, 2], "speedup": [1, 1.9]}),
    ("sizes in cells", "GPUs,img/s\n1x V100 (16 GB),100\n4x V100,360\n2x8xH100,1500\n", "",
     {"ranks": [1, 4, 16], "gpu": ["V100", "V100", "H100"]}),
    ("the model of a device", "GPU,workers,img/s\nV100,1,100\nV100,2,190\n", "", {"gpu": ["V100"] * 2}),
    ("a unit in a row below", "GPUs,time,batch per GPU\n,[min],\n1,60,8\n2,31,8\n", "", {"wall_s": [3600, 1860]}),
    ("a title above", "Scaling of ResNet-50\nGPUs,img/s\n1,100\n2,190\n", "", {"images_per_s": [100, 190]}),
    ("minutes and seconds", "tasks;elapsed\n1;43:05\n2;22:00\n", "elapsed=wall_s m:ss", {"wall_s": [2585, 1320]}),
    ("efficiencies in per cent", "GPUs,efficiency\n1,100\n2,87\n", "", {"efficiency": [1, 0.87]}),
    ("ranks across a named count", "GPUs,1,2,4\nimages/s,100,190,360\nSpeedup,1,1.9,3.6\n", "", CURVE),
    ("threads beside ranks", "ranks,threads,time (s)\n1,4,10\n2,4,6\n1,8,8\n2,8,5\n", "",
     {"ranks": [1, 2] * 2, "setting": ["threads 4"] * 2 + ["threads 8"] * 2}),
    ("a column by its number", "ranks,t,t\n1,10,100\n2,19,53\n", "3=wall_s", {"wall_s": [100, 53]}),
    ("a word of the user's with a unit", "n;Took\n1;10\n2;6\n", "n=ranks,Took=wall_s min", {"wall_s": [600, 360]}),
    ("both marks in one column", "ranks\timages_per_s\n1\t1,180.5\n2\t2,290\n", "", {"images_per_s": [1180.5, 2290]}),
    ("a decimal comma in another column", "ranks;images_per_s;step_s\n1;1.180;2,5\n2;2.290;3,5\n", "",
     {"images_per_s": [1180, 2290]}),
    ("decimal commas between semicolons", "GPUs;img/s;time\n1;1234,5;2058,2\n2;2345,6;1083,2\n", "",
     {"images_per_s": [1234.5, 2345.6], "wall_s": [2058.2, 1083.2]}),
    ("separators at the end, blank rows", "GPUs,img/s,\n1,100,\n\n,,\n2,190,\n", "", {"images_per_s": [100, 190]}),
    ("footnote marks, a repeated header", "GPUs,img/s\n1,100*\nGPUs,img/s\n2,190 [1]\n", "",
     {"images_per_s": [100, 190]}),
    ("a problem size of the list", "GPUs,layers,img/s\n1,18,100\n1,50,40\n2,18,190\n2,50,75\n", "",
     {"setting": ["layers 18", "layers 50"] * 2, "images_per_s": [100, 40, 190, 75]}),
    ("many GPUs and nodes", "Nodes,Total number of GPUs,images/s\n1,4,380\n8,32,2900\n", "",
     {"ranks": [4, 32], "ranks_per_node": [4, 4], "images_per_s": [380, 2900]}),
    ("the mean that is a time", "ranks,mean,stddev,median,user,system,min,max\n1,8.1,1,8,9,3,7,9\n2,4.2,1,4,5,2,3,5\n",
     "mean=wall_s", {"wall_s": [8.1, 4.2]}),
    ("a rate of a node", "nodes,GPUs,images/s per node\n1,4,400\n4,16,380\n", "",
     {"images_per_s": [400, 1520], "images_per_s_per_rank": [100, 95]}),
    ("a column of the scaling", "ranks,scaling,time (s)\n1,weak,10\n2,weak,11\n", "", {"scaling": ["weak"] * 2}),
    ("both scalings", "ranks,scaling,time (s)\n1,weak,10\n2,weak,11\n1,strong,9\n2,strong,5\n", "",
     {"setting": ["weak"] * 2 + ["strong"] * 2, "scaling": ["weak"] * 2 + ["strong"] * 2}),
    ("a speedup below the ranks of two labels", "ranks,A (s),B (s),speedup\n1,10,5,1\n2,10,6,0.83\n", "* (s)=wall_s",
     {"wall_s": [10, 5, 10, 6]}),
    ("a line that names the separator", "sep=;\nGPUs;img/s\n1;100\n2;190\n", "", {"images_per_s": [100, 190]}),
    ("cells= where something is measured", "GPUs,8,16\nimg/s,193,380\nTGS,4,3\n", "cells=wall_s",
     {"images_per_s": [193, 380]}),
]  # fmt: skip


def read(tmp_path, text, columns=""):
    (tmp_path / "t.csv").write_text(text)
    return table_contract.read_table(tmp_path / "t.csv", columns)


@pytest.mark.parametrize(("text", "columns", "expected"), [case[1:] for case in READ], ids=[case[0] for case in READ])
def test_a_table_is_read(tmp_path, text, columns, expected):
    runs = read(tmp_path, text, columns).runs
    for name, values in expected.items():
        assert runs[name].tolist() == (values if isinstance(values[0], str) else pytest.approx(values)), name


# What is asked, and the answers.
ASKED = [
    ("GPUs,tok/s,speedup\n1,100,1\n2,95,1.9\n", "is 'tok/s' the rate",
     ["tok/s=tokens_per_s_per_rank", "tok/s=tokens_per_s"]),
    ("ranks,images_per_s\n1,320\n2,615\n4,1.180\n", "is the mark in 1.180 before decimals, or",
     ["decimal=.", "decimal=,"]),
    ("|ranks|images_per_s|t|\n|-|-|-|\n|1|1.180|10,5|\n|2|2.290|5,2|\n", "is the mark in 1.180 before decimals, or",
     ["decimal=.", "decimal=,"]),
    ("tasks,elapsed\n1,43:05\n2,22:00\n", "minutes and seconds, or hours and minutes?",
     ["elapsed=wall_s m:ss", "elapsed=wall_s h:mm"]),
    ("GPUs,efficiency\n1,1\n2,3.3\n4,1.9\n", "'efficiency' is up to 3.3: a fraction, or per cent?",
     ["efficiency=efficiency x", "efficiency=efficiency %"]),
    ("GPUs,efficiency\n1,100%\n2,191%\n4,350%\n", "'efficiency' is up to 3.5 on 4 times as many ranks",
     ["efficiency=speedup", "efficiency=efficiency"]),
    ("GPUs,time,speedup\n1,9,1\n2,9.2,0.98\n4,9.5,0.95\n", "'speedup' is up to 1 on 4 times as many ranks",
     ["speedup=speedup", "speedup=efficiency", "speedup=unused"]),
    ("GPUs,mean\n1,2.1\n8,0.3\n", "what was measured in 'mean'?",
     [f"mean={name}" for name in ("wall_s", "step_s", "epoch_s", "images_per_s", "images_per_s_per_rank", "speedup",
                                  "efficiency")]),
    ("GPUs,scaling\n1,1\n8,7.5\n", "what was measured in 'scaling'?",
     [f"scaling={name}" for name in ("images_per_s", "images_per_s_per_rank", "wall_s", "step_s", "epoch_s", "speedup",
                                     "efficiency")]),
    ("ranks,speedup,Grid scaling,min\n1,1,1,7\n2,0.9,1.5,3\n", "'speedup' is up to 1 on 2 times as many ranks",
     ["speedup=speedup", "speedup=efficiency", "speedup=unused"]),
    ("ranks,max,median,min,mean,system\n1,9,7.9,7,8.13,3\n2,5,4.1,4,4.2,3\n", "efficiency among",
     [f"{name}=measured" for name in ("median", "mean", "cells", "max", "min")]),
    ("ranks,A sem,B sem,fcntl\n1,12,30,98\n2,664,58,477\n", "efficiency among",
     [f"{name}=measured" for name in ("* sem", "cells", "A sem", "B sem", "fcntl")]),
    ("size,core1,core2,core4\n9,1,1.8,3\n16,1,1.9,3.5\n", "no column of ranks", ["core*=measured"]),
    ("nodes,tasks per node,cpus each,time (s)\n1,1,1,40\n1,1,8,6\n1,1,16,3\n", "have 1 ranks but other values",
     ["cpus each=ranks"]),
    ("ranks,threads,time (s)\n1,1,40\n1,8,6\n1,16,3\n", "have 1 ranks but other values", ["threads=ranks"]),
    ("GPUs,batch,img/s\n1,1,10\n1,4,12\n8,16,70\n8,24,80\n", "have 1 ranks but other values",
     ["batch=batch_per_rank", "batch=global_batch"]),
    ("Node count,Queue,Walltime\n2,debug,1h\n256,scaling,1h\n1024,small,6h\n", "does 'Node count' count hosts",
     ["Node count=nodes"]),  # the limits of queues
    ("nodes,width,img/s\n1,4,380\n2,7,700\n", "are the ranks counted by 'width'?",
     ["width=ranks", "width=ranks_per_node", "width=unused"]),
    ("ranks,Atoms,hue,time (s)\n1,10,1,5\n1,10,2,5.1\n2,10,1,3\n2,10,2,3.1\n", "have 1 ranks but other values",
     ["hue=setting", "rows=repeats"]),
    ("GPUs,Throughput\n1,1x\n2,1.9x\n", "what was measured in 'Throughput'?",
     ["Throughput=speedup", "Throughput=efficiency"]),
    ("GPUs,tok/s,TFLOPS\n1,10,50\n2,19,90\n", "several columns are images_per_s",
     ["tok/s=measured", "TFLOPS=measured"]),
    ("GPUs,Throughput,TFLOPS/GPU\n1,10,50\n2,19,45\n", "several columns are images_per_s",
     ["Throughput=measured", "TFLOPS/GPU=measured"]),
    ("ranks,GPUs,img/s\n1,4,100\n2,8,190\n", "several columns are ranks: 'ranks', 'GPUs'",
     ["ranks=ranks", "GPUs=ranks"]),
    ("nodes,gpus,img/s\n1,4,100\n2,4,190\n", "of each node, or of all?", ["gpus=ranks_per_node"]),
    ("colour,img/s\n1,100\n2,190\n", "no column of ranks", ["colour=ranks"]),
    ("Setup,time (s)\n1 GPU,60\n8x V100,9\n", "no column of ranks", ["Setup=ranks"]),
    ("split,nodes,time (s)\ntrain,90941,12\nvalid,29799,3\n", "does 'nodes' count hosts, each as one rank?",
     ["nodes=nodes"]),
    ("Cores,time (s)\n1 (serial),9\n1,8.9\n2,5\n", "no column of ranks", ["Cores=ranks"]),
    ("GPUs,images per s\n1,100\n2,95\n", "is 'images per s' the rate", ["images per s=images_per_s_per_rank"]),
    ("GPUs,Latency\n1,60 s\n2,31 s\n4,OOM\n", "what was measured in 'Latency'?",
     ["Latency=wall_s", "Latency=step_s", "Latency=epoch_s", "Latency=job_s"]),
    ("Model,1 GPU,2 GPUs\na,100,190\n", "what was measured in '1 GPU'?",
     ["cells=images_per_s", "cells=images_per_s_per_rank", "cells=wall_s"]),
    ("Input,1 node,2 nodes\nlarge,3.8 s,2.1 s\n", "what was measured in '1 node'?",
     ["cells=wall_s", "cells=step_s", "cells=epoch_s", "cells=job_s"]),
    ("| |ranks|time (s)|\n|-|-|-|\n|dense|8|12|\n|5 layers|32|5.2|\n", "is each of '' another curve?", ["1=unused"]),
    ("GPUs,cpu,time (s)\n1,Xeon,10\n2,Xeon,6\n4,EPYC,2\n8,EPYC,1.2\n", "is each of 'cpu' another curve?",
     ["cpu=setting", "cpu=unused"]),
    ("GPUs,hue,img/s\n1,18,100\n2,18,190\n1,50,40\n2,50,75\n", "1 ranks but other values",
     ["hue=setting", "rows=repeats"]),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("text", "question", "answers"), ASKED)
def test_a_question_has_an_answer_for_each_reading(tmp_path, text, question, answers):
    with pytest.raises(TableError) as error:
        read(tmp_path, text)
    first, *lines = str(error.value).splitlines()
    assert first.startswith(f"{tmp_path / 't.csv'}, line 1: ")
    assert question in first
    offers = [line.partition('COLUMNS="')[2].rstrip('"') for line in lines]
    assert offers[: len(answers)] == answers
    for answer in offers:
        further = ""
        try:
            read(tmp_path, text, answer)
        except TableError as asked:
            further = str(asked)
        assert question not in further


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a,b\n1,2\n",
            "no column of ranks (whole numbers of GPUs, workers, processes, or nodes and GPUs per node) among 'a', 'b'",
        ),
        ("GPUs,comm,loss\n1,2,3\n2,3,4\n", "no column of a known rate, time, speedup or efficiency among"),
        ("nodes,comm (ms)\n1,2\n2,3\n", "no column of a known rate"),
        ("GPUs,img/s\n1,fast\n", "no row can be used"),
        ("GPUs,img/s\n2M/8G,100\n4M/8G,190\n", "no column of ranks (whole numbers of GPUs"),
        ('"1,2\n', "no table that is known"),
    ],
)
def test_what_cannot_be_read_is_reported_without_a_hint(tmp_path, text, message):
    with pytest.raises(TableError) as error:
        read(tmp_path, text)
    assert message in str(error.value)
    assert str(tmp_path / "t.csv") in str(error.value)
    assert "COLUMNS" not in str(error.value)


def test_an_answer_is_added_to_those_before(tmp_path):
    with pytest.raises(TableError, match='COLUMNS="colour=ranks,img/s=images_per_s_per_rank"'):
        read(tmp_path, "colour,img/s\n1,100\n2,95\n", "colour=ranks")
    with pytest.raises(TableError, match='COLUMNS="mean=wall_s"'):  # it replaces the one before
        read(tmp_path, "ranks,mean,max\n1,100,101\n2,95,97\n", "mean=measured")


def test_columns_that_name_no_header_are_reported(tmp_path):
    notes = read(tmp_path, "GPUs,img/s\n1,100\n2,190\n", "Sped=wall_s").notes
    assert any("COLUMNS names 'Sped', which is no header here" in note for note in notes)
    for given in ("img/s=fast", "*=images_per_s"):
        with pytest.raises(TableError, match=re.escape(f"COLUMNS: '{given}' given; allowed: HEADER=NAME")):
            read(tmp_path, "GPUs,img/s\n1,100\n", given)


def test_rows_that_are_left_out_are_named(tmp_path):
    notes = read(
        tmp_path, "ranks,images_per_s\n1,100\n2,190,3\nx,5\nTotal,290\n8\n4,OOM\n2,0\n2,1e20\n2,12 W\n2,190\n"
    ).notes
    where = f"{tmp_path / 't.csv'}"
    assert notes == (
        f"{where}, line 3: 3 cells, and 2 headers; the row is left out",
        f"{where}, line 6: 1 cells, and 2 headers; the row is left out",
        f"{where}, line 4, column 'ranks': 'x' is not a number",
        f"{where}, line 5, column 'ranks': 'Total' is not a number",
        f"{where}, line 7, column 'images_per_s': 'OOM' is not a number",
        f"{where}, line 8, column 'images_per_s': 0 given, must be more than 0",
        f"{where}, line 9, column 'images_per_s': 1e20 given, must be between 1e-09 and 1e+15",
        f"{where}, line 10, column 'images_per_s': '12 W' is not a number",
        f"{where}: left out, without ranks or a measurement: lines 4, 5, 7, 8, 9, 10",
    )


def test_rows_alike_one_below_the_other_are_repeats_and_a_note_says_so(tmp_path):
    text = "GPUs,cells,img/s\n1,5,100\n1,9,80\n1,5,101\n1,9,80\n2,5,190\n2,9,150\n2,5,192\n2,9,150\n"
    (note,) = read(tmp_path, text).notes
    assert "lines 2, 4 have 1 ranks but other values" in note
    assert note.endswith("they are repeats here")


def test_each_table_of_a_readme_is_read_by_its_title(tmp_path):
    path = tmp_path / "README.md"
    rows = "|GPUs|img/s|\n|-|-|\n|1|{}|\n|2|{}|\n"
    path.write_text(f"# Results\n## V100\n{rows.format(100, 190)}\n**A100**\n\n{rows.format(300, 290)}\n")
    result = table_contract.read_table(path)
    assert result.runs["setting"].tolist() == ["V100"] * 2
    (question,) = [note for note in result.notes if "is 'img/s' the rate of one rank" in note]
    assert "line 10" in question
    runs = table_contract.read_table(path, "table=a100,img/s=images_per_s_per_rank").runs
    assert runs["images_per_s"].tolist() == [300, 580]


def test_what_was_read_can_be_read_again(tmp_path):
    first = read(tmp_path, "model,Nodes,GPUs per node,tok/s,speedup\na,1,4,100,1\na,2,4,190,1.9\n")
    first.shown().to_csv(tmp_path / "again.csv", index=False)
    again = table_contract.read_table(tmp_path / "again.csv").runs
    same = [name for name in first.runs if name not in ("file", "place")]
    assert again[same].equals(first.runs[same])


def test_the_tidy_table_keeps_what_rounding_hides_and_the_unit_of_rates(tmp_path):
    tidy = read(tmp_path, "GPUs,throughput (k tok/s),speedup,steps\n1,1.2,1.00,10\n2,2.3,1.92,10\n").tidy()
    rows = tidy[tidy["ranks"].eq(2)].set_index("quantity")
    assert rows.loc["images_per_s", ["value", "half_unit"]].tolist() == pytest.approx([2300, 50])
    assert rows.loc["images_per_s", "unit"] == "tokens/s"
    assert rows.loc["speedup_throughput", ["value", "half_unit"]].tolist() == pytest.approx([1.92, 0.005])
    assert rows.loc["speedup_throughput", "kind"] == "stated"
    assert rows.loc["steps_per_rank", "place"] == "t.csv, line 3"
    assert not math.isnan(rows.loc["steps_per_rank", "value"])
