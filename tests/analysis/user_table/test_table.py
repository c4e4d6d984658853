import pytest

from analysis import TableError
from analysis.user_table import table


def read(tmp_path, text, told="", name="t.csv"):
    path = tmp_path / name
    path.write_text(text)
    return table.read(path, told)


def test_rates_of_the_job_and_of_a_rank_follow_from_each_other(tmp_path):
    runs = read(tmp_path, "GPUs,images/s per GPU,global batch\n1,100,32\n4,95,128\n").runs
    assert runs["images_per_s"].tolist() == [100, 380]
    assert runs["batch_per_rank"].tolist() == [32, 32]


def test_steps_per_second_and_seconds_per_step_are_rates(tmp_path):
    runs = read(tmp_path, "GPUs,batch per GPU,ms/step\n1,32,320\n2,32,400\n").runs
    assert runs["images_per_s"].tolist() == pytest.approx([100, 160])
    runs = read(tmp_path, "GPUs,batch per GPU,it/s\n1,32,3\n2,32,2.5\n").runs
    assert runs["images_per_s"].tolist() == pytest.approx([96, 160])


def test_steps_with_a_global_batch_and_with_none(tmp_path):
    runs = read(tmp_path, "GPUs,global batch,batch per GPU,it/s\n1,4096,32,0.25\n2,4096,32,0.5\n").runs
    assert runs["images_per_s"].tolist() == [1024, 2048]  # with 128 and 64 batches of 32 in a step
    result = read(tmp_path, "GPUs,s/step,speedup\n8,33.7,1\n16,17,1.98\n")  # one global batch, or speedup would be 4
    assert result.runs["images_per_s"].tolist() == pytest.approx([1 / 33.7, 1 / 17])
    assert any("taken as equal in all, at each number of ranks (its speedup says so)" in g for g in result.guesses)
    runs = read(tmp_path, "GPUs,s/step\n1,1\n2,1.1\n").runs  # one batch a rank
    assert runs["images_per_s"].tolist() == pytest.approx([1, 2 / 1.1])


def test_several_numbers_in_a_cell_are_several_columns(tmp_path):
    runs = read(tmp_path, "Throughput\n#GPU;mine (GPU/CPU);theirs\n1;228/219;225\n2;427/415;424\n").runs
    assert runs["setting"].tolist() == ["mine GPU"] * 2 + ["mine CPU"] * 2 + ["theirs"] * 2
    assert runs["images_per_s"].tolist() == [228, 427, 219, 415, 225, 424]


def test_of_two_units_of_one_rate_that_with_more_digits_is_read(tmp_path):
    result = read(
        tmp_path,
        "GPUs,Throughput (S/s),Throughput (T/s),Global batch,Global batch (T)\n8,1,2100,64,9e4\n16,2,4180,64,9e4\n",
    )
    assert result.runs["images_per_s"].tolist() == [2100, 4180]
    assert set(result.runs["work"]) == {"tokens"}
    assert result.runs["global_batch"].tolist() == [64, 64]
    assert any("'Throughput (S/s)' (the same in another unit)" in note for note in result.notes)


def test_ranks_and_batches_in_titles(tmp_path):
    title = "**Table 1** ResNet. 8 GPUs. Local batch size 2, global batch size 16."
    runs = read(tmp_path, f"{title}\n\n|Variant|img/s|\n|-|-|\n|a|100|\n|b|120|\n", name="t.md").runs
    assert runs["ranks"].tolist() == [8, 8]
    assert (runs["batch_per_rank"].tolist(), runs["global_batch"].tolist()) == ([2, 2], [16, 16])
    assert runs["setting"].tolist() == ["a", "b"]


def test_cells_across_are_what_their_unit_says_and_a_ratio_beside_them_is_of_the_most_ranks(tmp_path):
    text = "Expected throughput\nInput,1 node,2 nodes,4 nodes,Speedup\nlarge,3.8 s,2.1 s,1.2 s,3.2x\n"
    runs = read(tmp_path, text).runs
    assert runs["wall_s"].tolist() == [3.8, 2.1, 1.2]
    assert runs["speedup"].isna().tolist() == [True, True, False]


def test_resolutions_are_no_ranks(tmp_path):
    with pytest.raises(TableError, match="no column of ranks"):
        read(tmp_path, "Resolution,batch size,img/s\n192x160,32,100\n128x128x128,32,190\n")


def test_epochs_in_cells(tmp_path):
    runs = read(tmp_path, "GPUs,epochs,time\n1,90E,10 h\n8,90E,1.4 h\n").runs
    assert runs["epochs"].tolist() == [90, 90]


def test_threads_are_ranks_where_nothing_else_is(tmp_path):
    assert read(tmp_path, "threads,time (s)\n1,10\n2,6\n").runs["ranks"].tolist() == [1, 2]
    runs = read(tmp_path, "ranks,threads,time (s)\n1,4,10\n2,4,6\n1,8,8\n2,8,5\n").runs
    assert runs["ranks"].tolist() == [1, 2, 1, 2]
    assert runs["setting"].tolist() == ["threads 4"] * 2 + ["threads 8"] * 2


def test_one_ratio_beside_two_curves_is_of_that_from_which_it_follows(tmp_path):
    result = read(tmp_path, "ranks,cold (s),warm (s),efficiency\n1,10,5,1\n2,10,6,0.83\n")
    rows = result.runs.set_index(["setting", "ranks"])["efficiency"]
    assert (rows["warm", 2], rows.isna()["cold", 2]) == (0.83, True)


@pytest.mark.parametrize(
    ("text", "name", "why"),
    [
        ("GPUs,throughput,speedup\n1,100,1\n2,95,1.9\n4,90,3.6\n", "images_per_s_per_rank", "its speedup says so"),
        ("GPUs,throughput,speedup\n1,100,1\n2,190,1.9\n4,360,3.6\n", "images_per_s", "its speedup says so"),
        ("GPUs,throughput,speedup\n1,285,1\n2,64,0.2\n10,70,0.2\n", "images_per_s", "its speedup says so"),
        ("GPUs,throughput,efficiency\n1,100,1\n2,95,.95\n4,90,.9\n", "images_per_s_per_rank", "its efficiency says so"),
        ("GPUs,img/s\n1,100\n2,95\n4,90\n", "images_per_s_per_rank", "guessed: it does not grow with the ranks"),
        ("GPUs,img/s\n1,100\n2,190\n4,360\n", "images_per_s", "guessed: it grows with the ranks"),
    ],
)
def test_whether_a_rate_is_of_one_rank_follows_from_the_rest(tmp_path, text, name, why):
    result = read(tmp_path, text)
    (reading,) = [str(one) for one in result.readings if one.name == name]
    assert why in reading


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("GPUs,batch,img/s\n1,32,100\n2,64,190\n4,128,360\n", "global_batch"),
        ("GPUs,batch,img/s\n1,128,100\n2,64,190\n4,32,360\n", "batch_per_rank"),
        ("GPUs,batch,img/s,s/step\n1,64,100,.64\n2,64,200,.32\n", "global_batch"),
        ("GPUs,batch,img/s\n1,32,100\n2,32,190\n", "batch_per_rank"),
    ],
)
def test_whether_a_batch_is_of_one_rank_follows_from_the_rest(tmp_path, text, name):
    assert name in {one.name for one in read(tmp_path, text).readings}


def test_nodes_and_ranks_per_node_are_ranks(tmp_path):
    runs = read(tmp_path, "Nodes,GPUs per node,img/s\n1,4,100\n2,4,190\n").runs
    assert runs["ranks"].tolist() == [4, 8]
    result = read(tmp_path, "Machine Num,img/s\n1,100\n2,190\n")
    assert result.runs["ranks"].tolist() == [1, 2]
    assert any("each node is taken as one rank" in line for line in result.interpretation)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("ranks,images_per_s\n1,320\n2,615\n4,1.180\n8,2.290\n", [320, 615, 1180, 2290]),
        ("ranks,images_per_s\n1,0.9\n2,1.752\n4,3.400\n", [0.9, 1.752, 3.4]),
        ("ranks;images_per_s;x\n1;1.180;2,5\n2;2.290;3,5\n", [1180, 2290]),
        ("ranks\timages_per_s\n1\t1,180.5\n2\t2,290\n", [1180.5, 2290]),
        ("ranks;steps;batch_per_rank;wall_s;images_per_s\n1;3200;64;205;1.001\n2;1600;64;104;1.985\n", [1001, 1985]),
    ],
)
def test_what_a_mark_means_follows_from_the_rest(tmp_path, text, values):
    assert read(tmp_path, text).runs["images_per_s"].tolist() == values


def test_where_nothing_tells_between_semicolons_it_is_asked_for(tmp_path):
    text = "ranks;images_per_s\n1;1.180\n2;2.290\n"
    with pytest.raises(
        TableError, match=r"line 2, column 'images_per_s': '1.180': of thousands, or decimals\? Say COL"
    ):
        read(tmp_path, text)
    assert read(tmp_path, text, "decimal=,").runs["images_per_s"].tolist() == [1180, 2290]
    assert read(tmp_path, text, "decimal=.").runs["images_per_s"].tolist() == [1.18, 2.29]


def test_elsewhere_it_is_read_as_in_english_and_said(tmp_path):
    result = read(tmp_path, "ranks\timages_per_s\n1\t1,180\n2\t2,290\n")
    assert result.runs["images_per_s"].tolist() == [1180, 2290]
    assert any("'1,180' is read with a thousands mark: a guess; if not, say" in one for one in result.interpretation)


def test_merged_cells_have_the_value_above(tmp_path):
    result = read(tmp_path, "model,ranks,images_per_s\na,1,100\n,2,190\nb,1,50\n,2,97\n")
    assert result.runs["model"].tolist() == ["a", "a", "b", "b"]
    assert any("blank cells have the value above them" in line for line in result.interpretation)


def test_a_trailing_separator_shifts_nothing(tmp_path):
    for text in ("ranks,images_per_s,\n1,100,\n2,190,\n", "ranks,images_per_s\n1,100,\n2,190,\n"):
        runs = read(tmp_path, text).runs
        assert (runs["ranks"].tolist(), runs["images_per_s"].tolist()) == ([1, 2], [100, 190])


def test_rows_that_are_left_out_are_named(tmp_path):
    result = read(tmp_path, "ranks,images_per_s\n1,100\n2,190,3\nx,5\nTotal,290\n8\n4,OOM\n2,190\n")
    assert result.runs["line"].tolist() == [2, 8]
    where = f"{tmp_path / 't.csv'}, line"
    assert result.notes == (
        f"{where} 3: 3 cells, and 2 headers; the row is left out",
        f"{where} 5: 'Total': no point; the row is left out",
        f"{where} 6: 1 cells, and 2 headers; separated by ','; the row is left out",
        f"{where} 4, column 'ranks': 'x': no number; the row is left out",
        f"{where} 7, column 'images_per_s': 'OOM': not measured; the row is left out",
    )


@pytest.mark.parametrize(
    "text",
    [
        "GPUs,1,2,4\nimages/s,100,190,360\nSpeedup,1,1.9,3.6\n",
        "Metric,1 GPU,2 GPUs,4 GPUs\nimages/s,100,190,360\nSpeedup,1,1.9,3.6\n",
        "Throughput 1 GPU,Throughput 2 GPUs,Throughput 4 GPUs,Speedup 2 GPUs,Speedup 4 GPUs,Speedup 1 GPU\n"
        "100,190,360,1.9,3.6,1\n",
    ],
)
def test_curves_across_a_table(tmp_path, text):
    runs = read(tmp_path, text).runs
    assert runs["ranks"].tolist() == [1, 2, 4]
    assert runs["images_per_s"].tolist() == [100, 190, 360]
    assert runs["speedup"].tolist() == [1, 1.9, 3.6]


def test_one_row_a_setting_with_its_curve_across(tmp_path):
    result = read(tmp_path, "Images/s by number of GPUs\nModel,1,2,4\nresnet50,100,190,360\nvgg16,50,90,160\n")
    assert result.runs["model"].tolist() == ["resnet50"] * 3 + ["vgg16"] * 3
    assert result.runs["images_per_s"].tolist() == [100, 190, 360, 50, 90, 160]
    assert result.runs["place"][4] == "t.csv, line 4, '2'"


def test_two_columns_of_one_quantity_are_two_curves(tmp_path):
    runs = read(tmp_path, "GPUs,FP32 (img/s),FP16 (img/s)\n1,100,200\n2,190,380\n").runs
    assert runs["setting"].tolist() == ["FP32", "FP32", "FP16", "FP16"]
    assert runs["images_per_s"].tolist() == [100, 190, 200, 380]


def test_labels_that_differ_in_case_alone_are_one(tmp_path):
    text = "GPUs,Throughput - mixed precision,Throughput - FP32,Speedup (Mixed Precision)\n1,200,100,1\n2,380,190,1.9\n"
    runs = read(tmp_path, text).runs
    assert runs["speedup"].tolist()[:2] == [1, 1.9]
    assert runs["setting"].nunique() == 2


def test_columns_of_runs_are_repeats(tmp_path):
    runs = read(tmp_path, "GPUs,Run 1 (img/s),Run 2 (img/s)\n1,100,101\n2,190,191\n").runs
    assert runs["repeat"].tolist() == [1, 1, 2, 2]


def test_two_header_rows_and_a_row_of_units(tmp_path):
    text = ",Init,Train,Speedup\nGPUs,time,time,(train)\n,[s],[min],\n1,68,2,1\n2,142,1,2\n"
    runs = read(tmp_path, text).runs
    assert runs["wall_s"].tolist() == [120, 60]
    assert runs["init_s"].tolist() == [68, 142]


def test_titles_within_a_table_tell_curves_apart(tmp_path):
    runs = read(tmp_path, "GPUs,img/s\nResNet,\n1,100\n2,190\nVGG,\n1,50\n2,90\n").runs
    assert runs["setting"].tolist() == ["ResNet", "ResNet", "VGG", "VGG"]


def test_columns_of_words_that_are_not_known_tell_curves_apart(tmp_path):
    result = read(tmp_path, "GPUs,nccl,note,img/s\n1,yes,a,100\n2,yes,b,190\n1,no,c,100\n2,no,d,150\n")
    assert result.runs["setting"].tolist() == ["nccl yes", "nccl yes", "nccl no", "nccl no"]


def test_two_columns_of_ranks_that_differ_are_asked_for(tmp_path):
    text = "ranks,GPUs,img/s\n1,4,100\n2,8,190\n"
    with pytest.raises(
        TableError, match="columns 'ranks' and 'GPUs' are both ranks, and differ; say which is not: COL"
    ):
        read(tmp_path, text)
    assert read(tmp_path, text, "ranks=unused").runs["ranks"].tolist() == [4, 8]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "a,b\n1,2\n",
            "no headers that are known, or no row below them; read as separated by ',', its first row is 'a', 'b'",
        ),
        ("colour,img/s\n1,2\n", "no column of ranks (also read as it: GPUs, workers, processes"),
        ("colour,img/s\n1,2\n", 'say which it is: COLUMNS="colour=ranks"'),
        ("GPUs,colour\n1,2\n", "no column of a rate, a time, a speedup or an efficiency"),
        ("GPUs,img/s\n1,fast\n", "line 2, column 'img/s': 'fast' is no number"),
        ("just words\n", "no headers that are known"),
    ],
)
def test_what_cannot_be_read_is_reported(tmp_path, text, says):
    with pytest.raises(TableError) as error:
        read(tmp_path, text)
    assert says in str(error.value)
    assert str(tmp_path / "t.csv") in str(error.value)


def test_what_was_read_can_be_read_again(tmp_path):
    first = read(tmp_path, "model,Nodes,GPUs per node,img/s,speedup\na,1,4,100,1\na,2,4,190,1.9\n").runs
    first.drop(columns=["file", "line", "work"]).to_csv(tmp_path / "again.csv", index=False)
    again = table.read(tmp_path / "again.csv").runs
    same = [name for name in first if name not in ("file", "line", "place", "work")]
    assert again[same].equals(first[same])


def test_the_tidy_table_keeps_what_rounding_hides(tmp_path):
    tidy = read(tmp_path, "GPUs,throughput (k img/s),speedup,steps\n1,1.2,1.00,10\n2,2.3,1.92,10\n").tidy()
    rows = tidy[tidy["ranks"].eq(2)].set_index("quantity")
    assert rows.loc["images_per_s", ["value", "half_unit"]].tolist() == pytest.approx([2300, 50])
    assert rows.loc["speedup_throughput", ["value", "half_unit"]].tolist() == pytest.approx([1.92, 0.005])
    assert rows.loc["speedup_throughput", "kind"] == "stated"
    assert rows.loc["steps_per_rank", "place"] == "t.csv, line 3"
