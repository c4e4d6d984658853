import math

import pytest

from analysis import TableError
from analysis.user_table import table


def read(tmp_path, text, overrides=""):
    (tmp_path / "t.csv").write_text(text)
    return table.read(tmp_path / "t.csv", overrides)


CURVE = {"ranks": [1, 2, 4], "images_per_s": [100, 190, 360], "speedup": [1, 1.9, 3.6]}
# The subject of the test, the table, and the values of columns of its runs.
READ = [
    ("the rate of a rank", "GPUs,images/s per GPU,global batch\n1,100,32\n4,95,128\n",
     {"images_per_s": [100, 380], "batch_per_rank": [32, 32]}),
    ("the rate of each rank, by its cells", "workers,per worker,total\n1,6.46/s,6.46/s\n2,6.1/s,12.2/s\n",
     {"images_per_s_per_rank": [6.46, 6.1], "images_per_s": [6.46, 12.2]}),
    ("a row that is not parallel", "Variant,time (s)\nsequential,9\n1 thread,10\n2 threads,6\n4 threads,4\n",
     {"ranks": [1, 2, 4]}),
    ("a grid of processes", "ranks;time (s)\n(1, 1);10\n(2, 4);2\n", {"ranks": [1, 8]}),
    ("no GPUs beside ranks", "ranks,GPUs,time (s)\n1,0,9\n2,0,5\n", {"ranks": [1, 2]}),
    ("a size across, named in the corner", "Timestep (ms),1 GPU,2 GPUs\nfluid,28.7,18.4\nquiet,91.8,50\n",
     {"setting": ["fluid", "fluid", "quiet", "quiet"], "wall_s": [0.0287, 0.0184, 0.0918, 0.05]}),
    ("seconds of a step", "GPUs,batch per GPU,ms/step\n1,32,320\n2,32,400\n", {"images_per_s": [100, 160]}),
    ("steps a second", "GPUs,batch per GPU,it/s\n1,32,3\n2,32,2.5\n", {"images_per_s": [96, 160]}),
    ("steps of 128 and of 64 batches of 32", "GPUs,global batch,batch per GPU,it/s\n1,4096,32,0.25\n2,4096,32,0.5\n",
     {"images_per_s": [1024, 2048]}),
    ("steps of one batch a rank", "GPUs,s/step\n1,1\n2,1.1\n", {"images_per_s": [1, 2 / 1.1]}),
    ("several numbers in a cell", "Throughput\n#GPU;mine (GPU/CPU);theirs\n1;228/219;225\n2;427/415;424\n",
     {"setting": ["mine GPU"] * 2 + ["mine CPU"] * 2 + ["theirs"] * 2, "images_per_s": [228, 427, 219, 415, 225, 424]}),
    ("epochs in cells", "GPUs,epochs,time\n1,90E,10 h\n8,90E,1.4 h\n", {"epochs": [90, 90]}),
    ("threads beside ranks", "ranks,threads,time (s)\n1,4,10\n2,4,6\n1,8,8\n2,8,5\n",
     {"ranks": [1, 2, 1, 2], "setting": ["threads 4"] * 2 + ["threads 8"] * 2}),
    ("nodes and ranks per node", "Nodes,GPUs per node,img/s\n1,4,100\n2,4,190\n", {"ranks": [4, 8]}),
    ("a mark of thousands, as rates grow", "ranks,images_per_s\n1,320\n2,615\n4,1.180\n8,2.290\n",
     {"images_per_s": [320, 615, 1180, 2290]}),
    ("a mark of decimals, as rates grow", "ranks,images_per_s\n1,0.9\n2,1.752\n4,3.400\n",
     {"images_per_s": [0.9, 1.752, 3.4]}),
    ("a decimal comma in another column", "ranks;images_per_s;x\n1;1.180;2,5\n2;2.290;3,5\n",
     {"images_per_s": [1180, 2290]}),
    ("both marks in one column", "ranks\timages_per_s\n1\t1,180.5\n2\t2,290\n", {"images_per_s": [1180.5, 2290]}),
    ("a mark that the wall times tell",
     "ranks;steps;batch_per_rank;wall_s;images_per_s\n1;3200;64;205;1.001\n2;1600;64;104;1.985\n",
     {"images_per_s": [1001, 1985]}),
    ("a curve across", "GPUs,1,2,4\nimages/s,100,190,360\nSpeedup,1,1.9,3.6\n", CURVE),
    ("a curve across, its ranks in words", "Metric,1 GPU,2 GPUs,4 GPUs\nimages/s,100,190,360\nSpeedup,1,1.9,3.6\n",
     CURVE),
    ("a curve in one row",
     "Throughput 1 GPU,Throughput 2 GPUs,Throughput 4 GPUs,Speedup 2 GPUs,Speedup 4 GPUs,Speedup 1 GPU\n"
     "100,190,360,1.9,3.6,1\n", CURVE),
    ("one row a model with its curve",
     "Images/s by number of GPUs\nModel,1,2,4\nresnet50,100,190,360\nvgg16,50,90,160\n",
     {"model": ["resnet50"] * 3 + ["vgg16"] * 3, "images_per_s": [100, 190, 360, 50, 90, 160],
      "place": [f"t.csv, line {line}, '{ranks}'" for line in (3, 4) for ranks in (1, 2, 4)]}),
    ("two columns of one quantity", "GPUs,FP32 (img/s),FP16 (img/s)\n1,100,200\n2,190,380\n",
     {"setting": ["FP32", "FP32", "FP16", "FP16"], "images_per_s": [100, 190, 200, 380]}),
    ("a column a repeat", "GPUs,Run 1 (img/s),Run 2 (img/s)\n1,100,101\n2,190,191\n", {"repeat": [1, 1, 2, 2]}),
    ("two rows of headers and one of units",
     ",Init,Train,Speedup\nGPUs,time,time,(train)\n,[s],[min],\n1,68,2,1\n2,142,1,2\n",
     {"wall_s": [120, 60], "init_s": [68, 142]}),
    ("titles within a table", "GPUs,img/s\nResNet,\n1,100\n2,190\nVGG,\n1,50\n2,90\n",
     {"setting": ["ResNet", "ResNet", "VGG", "VGG"]}),
    ("words of an unknown column", "GPUs,nccl,note,img/s\n1,yes,a,100\n2,yes,b,190\n1,no,c,100\n2,no,d,150\n",
     {"setting": ["nccl yes", "nccl yes", "nccl no", "nccl no"]}),
    ("times by the unit of the cells", "GPUs,Throughput\n1,661ms\n2,400ms\n", {"wall_s": [0.661, 0.4]}),
    ("a total by the unit of the cells", "GPUs,Time/Epoch,Total (50 epochs)\n1,30 sec,25 min\n2,17 sec,14 min\n",
     {"job_s": [1500, 840]}),
    ("one quantity in two units", "ranks,Blocking time (ms),Eager time (s)\n1,3777,4.32\n2,2070,2.6\n",
     {"wall_s": [3.777, 2.07, 4.32, 2.6]}),
    ("a mark of thousands, as another column has decimals",
     "ranks;time (s);edges/s\n4;0.0248;504\n8;0.1749;19,677\n16;0.9675;142,567\n",
     {"images_per_s": [504, 19677, 142567]}),
    ("CPU time and efficiency are of no scaling",
     "cores,CPU time (s),CPU efficiency,wall (s)\n1,9,90%,10\n2,9.6,80%,6\n", {"wall_s": [10, 6]}),
    ("each row its own quantity",
     "of what,1 GPU,2 GPUs\nthroughput,120 img/s,240 img/s\np95 of all,5 s,5 s\nuse,80%,75%\n",
     {"images_per_s": [120, 240]}),
    ("millions of anything", "ranks,rate (M worlds/s)\n1,0.5\n2,0.9\n", {"images_per_s": [5e5, 9e5]}),
    ("a number of machines", "Config,time\n1x g4dn.xlarge,70 s\n2x g4dn.xlarge (DDP),40 s\n", {"ranks": [1, 2]}),
    ("serial, if no row is of one", "Way,time (s)\nSequential,9\nParallel (2 workers),5\n4 workers,3\n",
     {"ranks": [1, 2, 4]}),
    ("a speedup of one rank", "card,image per gpu / s,card speed up\n1,335,1\n8,306,0.9134\n",
     {"efficiency": [1, 0.9134]}),
    ("ratios over two bases are no curves", "ranks,time,speedup vs 1,speedup vs 2\n1,9 s,1,0.56\n2,5 s,1.8,1\n",
     {"wall_s": [9, 5], "speedup": [1, 1.8]}),
    ("numbers without which rows are alike", "Nodes,MSize,ms\n8,25B,18\n16,52B,19\n32,52B,19\n32,97B,19\n",
     {"setting": ["MSize 25B", "MSize 52B", "MSize 52B", "MSize 97B"]}),
    ("threads, where the number of ranks is one", "MPI processes,OMP threads,time (s)\n8,1,9\n8,2,5\n8,4,3\n",
     {"ranks": [1, 2, 4]}),
    ("all cores, as their ratios say",
     "ranks,threads,total cores,speedup,efficiency\n1,1,1,1,100%\n1,2,2,1,50%\n2,2,4,2,50%\n", {"ranks": [1, 2, 4]}),
    ("all cores, the product of two", "ranks,threads,cores,time (s)\n1,1,1,9\n1,2,2,5\n2,1,2,6\n2,2,4,3\n",
     {"ranks": [1, 2, 2, 4]}),
    ("no GPUs in some rows",
     "code,date,backend,ranks,GPUs,time (s)\na,May,HIP,1,1,9\n,,,2,2,5\na,May,none,64,0,8\n,,,128,0,4\n",
     {"ranks": [1, 2, 64, 128], "framework": ["HIP", "HIP", "none", "none"]}),
    ("a list of lists",
     ".. list-table:: ours\n   :header-rows: 1\n\n   * - GPUs\n     - ms/step\n   * - 1\n     - 30\n"
     "   * - 2\n     - 20\n\nThe end.\n", {"ranks": [1, 2], "step_s": [0.03, 0.02]}),
    ("comments",
     "# weak scaling\n# May\n#\n#nodes  #nproc  #total time\n2       96      17.5\n4       192     20.5   # busy\n"
     "#8     384     15.3\n", {"ranks": [96, 192], "job_s": [17.5, 20.5]}),
    ("cards of each machine", "模型,单机8卡耗时,2机8卡耗时,加速比\na,9h,6h,1.5\n", {"ranks": [8, 16], "nodes": [1, 2]}),
    ("numbers of ranks in titles within a table",
     "|Config|img/s|\n|-|-|\n|8 GPUs||\n|a|100|\n|b|120|\n|On 16 GPUs||\n|a|190|\n|b|220|\n",
     {"ranks": [8, 8, 16, 16], "setting": ["a", "b", "a", "b"]}),
    ("a table under each number of ranks",
     "On 4 cores:\n\n```\nmethod,time (s)\na,9\nb,8\n```\n\nOn 8 cores:\n\n```\nmethod,time (s)\na,5\nb,6\n```\n",
     {"ranks": [4, 4, 8, 8], "setting": ["a", "b", "a", "b"], "wall_s": [9, 8, 5, 6]}),
    ("efficiencies above 2.5, and another time", "ranks,Δt (s),wall time,efficiency\n1,0.1,9 h,1.00\n2,0.2,2 h,2.76\n",
     {"wall_s": [32400, 7200], "efficiency": [1, 2.76]}),
    ("a decimal point among commas", "ranks;time (s);speedup\n1;0,13;1.00\n2;0,19;0,68\n", {"speedup": [1, 0.68]}),
    ("serial, and one of an unknown number",
     "Implementación,Tiempo (s)\nSecuencial,4.3\nParalelo (12 hilos),0.97\nParalelo (32 hilos),0.9\nCluster,0.5\n",
     {"ranks": [1, 12, 32]}),
    ("another language",
     "Режим;Число потоков;Время, с;Ускорение\nseq;1;0,938515;1.00\nomp;4;1,70547;0.55\ntbb;4;0,10391;9.03\n",
     {"ranks": [1, 4, 4], "wall_s": [0.938515, 1.70547, 0.10391], "setting": ["seq", "omp", "tbb"]}),
    ("lines with a result each, after words", "It is slow:\nnp = 1     37 sec\nnp = 2     49 sec\nWhy?\n",
     {"ranks": [1, 2], "wall_s": [37, 49]}),
    ("lines that state a result each",
     "Hello,\n\nTwo nodes with 2 GPUs each: 110 img/s on each = 220 img/s\n1 GPU: 60 img/s (good)\n\nbye\n",
     {"ranks": [4, 1], "images_per_s": [220, 60]}),
    ("the number of ranks as nranks, parts of a wall time", "nranks,kernel_ms,wall_ms\n1,5,5.6\n2,4,6.7\n",
     {"ranks": [1, 2], "wall_s": [0.0056, 0.0067]}),
    ("a part that is never longer than the total", "procs,Total Time (s),Comp Time (s)\n1,2,1.5\n2,1.2,1.1\n",
     {"job_s": [2, 1.2], "ranks": [1, 2]}),
    ("single runs beside their median", "threads,run_1_s,run_2_s,median_run_s\n1,4.1,4.3,4.2\n2,2.2,2.4,2.3\n",
     {"wall_s": [4.2, 2.3]}),
    ("the time of a serial program beside that of the ranks", "threads,serial_time,openmp_time\n1,9,9.5\n2,9,5\n",
     {"wall_s": [9.5, 5]}),
    ("a shortest time is not in minutes", "ranks,time_s,time_min,time_max\n1,9,8,10\n2,5,4,6\n",
     {"wall_s": [9, 5], "ranks": [1, 2]}),
    ("one quantity and label twice", "threads,posix_s,omp_s,posix_mean_s,omp_mean_s\n1,9,7,10,8\n2,5,4,6,5\n",
     {"wall_s": [9, 5, 7, 4]}),
    ("efficiencies above 1 are no per cent", "workers,speedup,efficiency\n1,1,1\n2,6.6,3.3\n4,7.4,1.85\n",
     {"efficiency": [1, 3.3, 1.85]}),
    ("one task with more CPUs", "nodes,tasks_per_node,cpus_per_task,throughput\n1,1,1,7e6\n1,1,2,15e6\n",
     {"ranks": [1, 2]}),
    ("processes of threads", "mode,time (s),threads,processes\nomp,8,1,1\nomp,4,2,1\nmpi,2,2,2\nmpi,1,2,4\n",
     {"ranks": [1, 2, 4, 8]}),
    ("a size of the problem that grows in one curve alone",
     "mode,p,N_total,time_s\nstrong,1,64,9\nstrong,1,128,18\nweak,1,64,9\n"
     "strong,2,64,5\nstrong,2,128,9\nweak,2,128,10\n",
     {"setting": ["strong N_total 64", "strong N_total 128", "weak"] * 2}),
    ("N of several runs is no number of repeats", "N,nprocs,time_s\n50,1,4\n50,2,3\n500,1,40\n500,2,22\n",
     {"setting": ["N 50", "N 50", "N 500", "N 500"]}),
    ("tasks that have names", "Task,Nodes,time (s)\nsort,1,9\nsort,4,3\n", {"ranks": [1, 4]}),
    ("processes beside what runs in them", "Processes/runners,time (s)\n1,9\n4,3\n", {"ranks": [1, 4]}),
    ("words of other languages beside underscores",
     "Numero Thread,Tiempo_Segundos,Eficiencia_Porcentaje\n1,9,100\n2,5,90\n", {"efficiency": [1, 0.9]}),
    ("text behind the last bar", "|GPUs|time (s)|\n|-|-|\n|1|9|\n|2|5|{{< /caption >}}\n", {"wall_s": [9, 5]}),
    ("rows of rates that are named after times",
     "|mode|1 GPU|2 GPUs|\n|-|-|-|\n|training|3.1 Hz|3.7 Hz|\n|inference|7.5 Hz|15 Hz|\n",
     {"images_per_s": [3.1, 3.7, 7.5, 15]}),
    ("aligned text in parts",
     "Strong\n  Ranks   Speed Up\n      1   1.0\n      2   1.9\n-----\n"
     "Weak\n  Ranks/Data size  Speed Up\n                1  1.0\n                2  0.8\n",
     {"speedup": [1, 1.9, 1, 0.8], "setting": ["Strong", "Strong", "Weak", "Weak"]}),
    ("ranks and batches in titles",
     "**Table 1** 8 GPUs. Local batch size 2, global batch size 16.\n\n|Variant|img/s|\n|-|-|\n|a|100|\n|b|120|\n",
     {"ranks": [8, 8], "batch_per_rank": [2, 2], "global_batch": [16, 16], "setting": ["a", "b"]}),
    ("cells across are what their unit says, and a ratio beside them is of the most ranks",
     "Expected throughput\nInput,1 node,2 nodes,4 nodes,Speedup\nlarge,3.8 s,2.1 s,1.2 s,3.2x\n",
     {"wall_s": [3.8, 2.1, 1.2], "speedup": [math.nan, math.nan, 3.2]}),
    ("one ratio beside two curves is of that from which it follows",
     "ranks,cold (s),warm (s),efficiency\n1,10,5,1\n2,10,6,0.83\n", {"efficiency": [math.nan, math.nan, 1, 0.83]}),
    ("labels that differ in case alone are one",
     "GPUs,Throughput - mixed precision,Throughput - FP32,Speedup (Mixed Precision)\n1,200,100,1\n2,380,190,1.9\n",
     {"speedup": [1, 1.9, math.nan, math.nan], "images_per_s": [200, 380, 100, 190]}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "columns"), [case[1:] for case in READ], ids=[case[0] for case in READ])
def test_a_table_is_read(tmp_path, text, columns):
    runs = read(tmp_path, text).runs
    for name, values in columns.items():
        expected = values if isinstance(values[0], str) else pytest.approx(values, nan_ok=True)
        assert runs[name].tolist() == expected, name


@pytest.mark.parametrize(
    ("text", "columns", "guess"),
    [
        ("GPUs,s/step,speedup\n8,33.7,1\n16,17,1.98\n",  # one global batch, or the speedup would be 4
         {"images_per_s": [1 / 33.7, 1 / 17]}, "taken as equal in all, at each number of ranks (its speedup says so)"),
        ("GPUs,Throughput (S/s),Throughput (T/s),Global batch,Global batch (T)\n8,1,2100,64,9e4\n16,2,4180,64,9e4\n",
         {"images_per_s": [2100, 4180], "work": ["tokens"] * 2, "global_batch": [64, 64]},
         "'Throughput (S/s)' (the same in another unit)"),
        ("Machine Num,img/s\n1,100\n2,190\n", {"ranks": [1, 2]}, "each node is taken as one rank"),
        ("ranks\timages_per_s\n1\t1,180\n2\t2,290\n", {"images_per_s": [1180, 2290]},
         "'1,180' is read with a thousands mark: a guess; if not, say"),
        ("model,ranks,images_per_s\na,1,100\n,2,190\nb,1,50\n,2,97\n", {"model": ["a", "a", "b", "b"]},
         "blank cells have the value above them"),
        ("Speedup of the solver\n\nGPUs,1,2,4\nsmall,437,237,154\nlarge,800,420,230\n",  # no speedup is 437
         {"wall_s": [437, 237, 154, 800, 420, 230]}, "the cells are times, for they fall with the ranks"),
    ],
)  # fmt: skip
def test_a_table_is_read_by_a_guess_that_is_reported(tmp_path, text, columns, guess):
    test_a_table_is_read(tmp_path, text, columns)
    result = table.read(tmp_path / "t.csv")
    assert any(guess in line for line in (*result.interpretation, *result.guesses, *result.notes))


@pytest.mark.parametrize(
    ("text", "name", "why"),
    [
        ("GPUs,throughput,speedup\n1,100,1\n2,95,1.9\n4,90,3.6\n", "images_per_s_per_rank", "its speedup says so"),
        ("GPUs,throughput,speedup\n1,100,1\n2,190,1.9\n4,360,3.6\n", "images_per_s", "its speedup says so"),
        ("GPUs,throughput,speedup\n1,285,1\n2,64,0.2\n10,70,0.2\n", "images_per_s", "its speedup says so"),
        ("GPUs,throughput,efficiency\n1,100,1\n2,95,.95\n4,90,.9\n", "images_per_s_per_rank", "its efficiency says so"),
        ("GPUs,img/s\n1,100\n2,190\n4,360\n", "images_per_s", "guessed: it grows with the ranks"),
        ("GPUs,batch,img/s\n1,32,100\n2,64,190\n4,128,360\n", "global_batch", "it grows as the ranks do"),
        ("GPUs,batch,img/s\n1,128,100\n2,64,190\n4,32,360\n", "batch_per_rank", ""),
        ("GPUs,batch,img/s,s/step\n1,64,100,.64\n2,64,200,.32\n", "global_batch", "of all ranks"),
        ("GPUs,batch,img/s\n1,32,100\n2,32,190\n", "batch_per_rank", ""),
    ],
)
def test_whether_a_rate_or_batch_is_of_one_rank_follows_from_the_rest(tmp_path, text, name, why):
    (reading,) = [reading for reading in read(tmp_path, text).readings if reading.name == name]
    assert why in str(reading)


def test_an_ambiguous_mark_between_semicolons_is_asked_for(tmp_path):
    text = "ranks;images_per_s\n1;1.180\n2;2.290\n"
    with pytest.raises(TableError, match=r"line 2, column 'images_per_s': '1.180': of thousands, or decimals\?"):
        read(tmp_path, text)
    assert read(tmp_path, text, "decimal=,").runs["images_per_s"].tolist() == [1180, 2290]
    assert read(tmp_path, text, "decimal=.").runs["images_per_s"].tolist() == [1.18, 2.29]


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


def test_two_columns_of_ranks_that_differ_are_asked_for(tmp_path):
    text = "ranks,GPUs,img/s\n1,4,100\n2,8,190\n"
    with pytest.raises(TableError, match="'ranks' and 'GPUs' are both ranks, and differ; say which is not: COL"):
        read(tmp_path, text)
    assert read(tmp_path, text, "ranks=unused").runs["ranks"].tolist() == [4, 8]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n",
         "no headers that are known, or no row below them; read as separated by ',', its first row is 'a', 'b'"),
        ("just words\n", "no headers that are known"),
        ("colour,img/s\n1,2\n", "no column of ranks (also read as it: GPUs, workers, processes"),
        ("colour,img/s\n1,2\n", 'say which it is: COLUMNS="colour=ranks"'),
        ("P,Q,time (s)\n1,1,9\n1,2,5\n2,2,3\n", "no column of ranks"),
        ("Resolution,batch size,img/s\n192x160,32,100\n128x128x128,32,190\n", "no column of ranks"),
        ("Kernel,Calls,time (ms)\nread,1,2\nmask,10,5\nwrite,-,0.5\n", "no column of ranks"),
        ('{"1": {"time": 9.0, "speedup": 1}, "2": {"time": 5.0, "speedup": 1.8}}', 'COLUMNS="key=ranks"'),
        ("GPUs,scaling factor\n1,2\n1,4\n2,8\n", "no column of a rate"),
        ("|Board|lanes|1 GPU|2 GPUs|\n|-|-|-|-|\n|a|20|x16|x8|\n|b|28|x16|x16|\n", "no column of a rate"),
        ("GPUs,colour\n1,2\n", "no column of a rate, a time, a speedup or an efficiency"),
        ("GPUs,img/s\n1,fast\n", "line 2, column 'img/s': 'fast' is no number"),
        ("nodes,time (s)\n31,0.1\n37,0.2\n", "are the 'nodes' machines, or those of a graph?"),
        ("GPUs,img/s\n1,100\n2,95\n4,90\n",
         "is 'img/s' the rate of one rank, or of the whole job? it does not grow with the ranks; say "
         'COLUMNS="img/s=images_per_s_per_rank" or COLUMNS="img/s=images_per_s"'),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_reported(tmp_path, text, message):
    with pytest.raises(TableError) as error:
        read(tmp_path, text)
    assert message in str(error.value)
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
