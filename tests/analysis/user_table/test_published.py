"""Tables as their authors published them, compared with what a person reads in them (published/README.md)."""

import functools
from pathlib import Path

import pytest

from analysis import TableError
from analysis.user_table import table

pytestmark = pytest.mark.slow  # reads all of them

FOLDER = Path(__file__).with_name("published")


@functools.cache
def read(name):
    return table.read(FOLDER / name)


def column(runs, name):
    return runs[name].tolist()


# One curve of each table: its file, a part of its setting, its machine, its ranks, and the printed values by quantity.
CURVES = [
    ("a16_resnet18.md", "", "", [1, 2, 4, 1, 2, 4], {"batch_per_rank": [512] * 3 + [1024] * 3,
      "images_per_s": [5643, 8139, 12342, 6125, 9845, 15108], "speedup": [1, 1.44, 2.19, 1, 1.61, 2.47],
      "efficiency": [1, 0.72, 0.55, 1, 0.8, 0.62]}),
    ("bsc_lab11.txt", "", "", [1, 2, 4, 8, 16, 32], {"init_s": [68, 142, 75, 110, 110, 111],
      "wall_s": [163, 93, 47, 30, 19, 14], "job_s": [231, 235, 122, 140, 129, 125],
      "speedup": [1, 1.72, 3.47, 5.43, 8.58, 11.64]}),
    ("dle_gnmt.md", "TF32", "", [1, 4, 8],
     {"images_per_s": [83214, 278576, 519952], "speedup": [1, 3.348, 6.248], "work": ["tokens"] * 3}),
    ("dle_gnmt.md", "Mixed precision", "", [1, 4, 8],
     {"images_per_s": [140909, 463144, 822024], "speedup": [1, 3.287, 5.834], "work": ["tokens"] * 3}),
    ("keras_7gforce.tsv", "nccl TRUE", "", [2, 2, 3, 3, 4, 5, 6],
     {"images_per_s": [17183.4, 17438.76, 21825.34, 13376.63, 17232.97, 20651.11, 38547.11]}),
    ("keras_7gforce.tsv", "nccl FALSE", "", [1, 1, 1, 1, 2, 2],
     {"images_per_s": [9541.44, 9560.36, 9655.21, 9508.1, 17678.42, 9416.75]}),
    ("v100_units.md", "", "", [1, 2, 4], {"images_per_s": [332, 583, 818]}),
    ("mlbench_clusters.md", "DDP, Imagenet data", "puhti", [1, 4, 8], {"images_per_s": [328.21, 1217.30, 2431.23]}),
    ("dlperf_paddle.md", "with dali", "", [1, 4, 8, 16, 32],
     {"images_per_s": [887.17, 3598.0, 6862.17, 6018.46, 11617.57], "batch_per_rank": [196] * 5,
      "speedup": [1, 4.06, 7.73, 6.78, 13.1]}),
    ("dlperf_frameworks.md", "FP32, batch size = 128 PyTorch", "", [1, 8, 16, 32],
     {"images_per_s": [348.62, 2632.93, 5115.4, 10021.29]}),
    ("dlperf_frameworks.md", "w/DALI", "", [1, 8, 16, 32], {"batch_per_rank": [196] * 4}),
    ("dlperf_repeats.md", "Finial", "", [1, 8, 16, 32], {"images_per_s": [384.85, 2969.45, 5906.55, 11711.18]}),
    ("dle_ssd.md", "DGX-1 (8x V100 16GB) FP32", "", [1, 4, 8], {"images_per_s": [107.22, 419.54, 840.35],
      "speedup": [1.0, 3.91, 7.83]}),
    ("dle_ncf.md", "A100 40GB) TF32", "", [1, 8], {"images_per_s": [22.59e6, 110.16e6],
      "batch_per_rank": [1048576, 131072]}),
    ("dle_transformerxl.md", "Large model TF32", "", [1, 2, 4, 8], {"images_per_s": [14497, 27304, 53756, 106651]}),
    ("dle_bert.md", "mixed precision Sequence Length 512", "", [1, 4, 8], {"images_per_s": [28.72, 109.96, 190.65],
      "global_batch": [32768] * 3}),
    ("bsc_omp_times.csv", "65536", "", [1, 2, 4, 8, 16, 32], {"n": [200] * 6,
      "wall_s": [66.141e-6, 34.125e-6, 20.449e-6, 11.698e-6, 11.642e-6, 16.721e-6]}),
    ("lfsr_workers.md", "", "", [1, 2, 4, 8], {"wall_s": [1.3975, 0.5858, 0.8408, 1.5509],
      "efficiency": [1.051, 1.254, 0.437, 0.118]}),
    ("pwscf.md", "", "", [2, 4, 8, 16, 32], {"speedup": [1, 2.81, 3, 2.61, 2.61]}),
    ("cellpose.md", "", "", [1, 2, 4, 6], {"wall_s": [75.25, 95.96, 79.02, 95.92]}),
    ("inference_nodes.md", "", "", [1, 2, 3], {"images_per_s": [112.9, 229.0, 338.4], "low": [112.4, 228.1, 337.3]}),
    ("zip.md", "", "", [1, 2, 4, 8, 12, 16, 20], {"wall_s": [0.836, 0.531, 0.299, 0.298, 0.279, 0.285, 0.287],
      "images_per_s": [219e6, 345e6, 614e6, 616e6, 657e6, 643e6, 639e6]}),
    ("qr_pi.md", "raspberry", "", [1, 2, 3, 4, 5, 6, 7, 10], {"wall_s": [53, 32, 25, 22.5, 21.5, 20.9, 20.3, 21.1]}),
    ("qr_pi.md", "jobs 100", "", [8, 20], {"wall_s": [19, 85.6]}),
    ("fenced.md", "", "", [8, 16, 32, 64], {"images_per_s": [12456, 24234, 47123, 91567], "batch_per_rank": [256] * 4}),
    ("hunyuan.md", "FBCache + CP", "", [2, 4, 8], {"wall_s": [1132.9, 718.15, 649.23]}),
    ("t4.md", "", "", [1, 2, 2], {"wall_s": [14 * 3600, 11 * 3600, 8.5 * 3600]}),
    ("ddp_v100.md", "", "", [1, 4], {"wall_s": [36 * 3600, 9 * 3600]}),
    ("distilbert.md", "", "", [1, 4], {"epoch_s": [180, 60]}),
    ("circle_rope.md", "LoRA", "", [1, 4], {"images_per_s": [2.5, 8]}),
    ("tensorpack_multigpu.md", "line 5 tensorpack CPU", "", [1, 2, 4, 8], {"images_per_s": [228, 423, 785, 1579]}),
    ("tensorpack_multigpu.md", "line 12 tensorflow", "", [1, 2, 4, 8],
     {"images_per_s": [221.68, 421.01, 828.29, 1604.55]}),
    ("tensorpack_horovod.md", "", "", [32, 128, 128, 256], {"wall_s": [18540, 6000, 4980, 4140]}),
    ("tensorpack_wrappers.md", "Keras+VGG16", "", [1, 2, 8], {"images_per_s": [204, 304, 449]}),
    ("llmfoundry.md", "A100 40GB", "", [128, 64, 32, 16], {"images_per_s": [2386897, 1216104, 497782, 305372],
      "global_batch": [1280, 640, 320, 128]}),
    ("torchtitan_titles.md", "Table 3", "", [128] * 3, {"images_per_s_per_rank": [5605, 6514, 8380],
      "global_batch": [256] * 3}),
    ("torchtitan_nodes.md", "", "", [4, 8], {"images_per_s_per_rank": [10938, 10753]}),
    ("albert.md", "", "", [1, 2, 4, 8], {"images_per_s": [0.24 * 4096, 0.46 * 4096, 0.90 * 4096, 1.73 * 4096],
      "wall_s": [518400, 270000, 136800, 72000]}),
    ("bert_p3dn.md", "", "", [1, 2, 4, 8], {"wall_s": [169200, 90000, 50400, 31260]}),
    ("dlperf_mxnet.md", "size = 48", "", [1, 2, 4, 8, 16, 32],
     {"images_per_s": [153.75, 287.77, 572.64, 1127.41, 2067.72, 4105.29]}),
    ("keras_m60.tsv", "", "", [1, 2, 3, 4], {"images_per_s": [44.92, 91.44, 127.33, 173.5]}),
    ("marin.md", "", "", [8, 16, 64], {"images_per_s": [1 / 33.7, 1 / 17, 1 / 4.5]}),
    ("lora_grid.md", "rank = 32", "", [1, 2, 4], {"images_per_s": [1.29, 2.57, 5.11]}),
    ("ddp_epoch.md", "", "", [1, 2], {"epoch_s": [74.39, 36.49]}),
    ("tf_cnn_466.log", "", "", [1], {"images_per_s": [204.75]}),
    ("ray_anyscale.md", "", "", [1, 4, 8, 16, 32], {"epoch_s": [2520, 660, 372, 204, 114]}),
    ("expected_speedups.md", "Multi-Node", "", [8, 16], {"epoch_s": [540, 300]}),
    ("packets.md", "", "", [1, 2], {"images_per_s": [1069.2, 1749.3]}),
    ("horovod_logs", "", "", [8, 2], {"images_per_s": [14281.2, 2976.1]}),
    ("librispeech.md", "", "", [1, 2, 4, 8], {"speedup": [1, 1.98, 3.73, 6.95]}),
    ("hpcg.md", "", "ARCHER", [1, 2, 4, 8], {"images_per_s": [15.65, 26.25, 55.63, 110.52]}),
    ("streaming.md", "Dynamic", "", [1, 2, 4], {"images_per_s": [119.26, 186.09, 265.19]}),
    ("matmul.md", "", "", [1, 2, 4, 7], {"wall_s": [0.414, 0.353, 0.355, 0.326]}),
    ("pipeline.md", "RAG", "", [1, 2, 4, 8, 16], {"images_per_s": [1.55, 3.03, 5.84, 11.41, 17.6]}),
    ("opensora.md", "768", "", [1, 2, 4, 8], {"wall_s": [1656, 863, 466, 276]}),
    ("xdit.md", "960x960", "", [1, 2, 3, 6], {"wall_s": [1735.01, 934.09, 645.45, 367.02]}),
    ("stencil.md", "512", "", [1, 2, 4, 8], {"speedup": [1, 1.97, 3.84, 6.17]}),
    ("mergesort.md", "", "", [1, 2, 4, 8], {"wall_s": [90, 50, 28, 16]}),
    ("mpi_weak.md", "repair", "", [1, 2, 4, 8], {"images_per_s": [0.34e6, 0.66e6, 1.31e6, 2.56e6],
      "efficiency": [1, 0.99, 0.98, 0.95]}),
    ("threads.md", "", "", [1, 4, 8, 16], {"wall_s": [107.5, 30.7, 17.1, 13.9]}),
    ("stylegan.md", "", "", [2, 4], {"wall_s": [131 * 3600, 251 * 3600]}),
    ("slora.md", "Adapters 100", "", [2, 4], {"speedup": [0.97, 2.34]}),
    ("documents.md", "Documents 1000", "", [4, 8], {"wall_s": [390, 330]}),
    ("workers.md", "", "", [1, 2, 4, 8, 16], {"wall_s": [45.2, 24.8, 14.1, 12.3, 12.1]}),
    ("alphaexa.md", "", "", [32, 64, 128, 256, 1024], {"images_per_s": [220e3, 480e3, 1.4e6, 2.8e6, 3.9e6]}),
    ("mi250x.md", "", "", [4, 8, 16, 32], {"images_per_s": [4800, 9200, 17600, 33000]}),
    ("rl.md", "Multi-Node", "", [4, 8, 16, 32], {"images_per_s": [320 / 3600, 600 / 3600, 1100 / 3600, 2000 / 3600]}),
    ("ppo.md", "", "", [4, 8, 16], {"images_per_s": [850, 1600, 3100]}),
    ("grid.txt", "", "", [8, 16, 32], {"images_per_s": [4400, 7500, 12000]}),
    ("nccl.md", "", "", [1, 8, 32, 64, 128], {"images_per_s": [340, 2680, 10560, 20800, 40300]}),
    ("cores.md", "", "", [1, 2, 4, 8], {"images_per_s": [95, 175, 320, 540]}),
    ("scorep.md", "", "", [1, 4, 8], {"images_per_s": [75, 345.9, 680.7]}),
    ("rtx5090.md", "", "", [1, 2, 4], {"images_per_s": [150, 280, 510]}),
    ("a10.md", "", "", [1, 2, 4], {"images_per_s": [1.46, 2.85, 5.5]}),
    ("exfm.md", "2D Sparse", "", [256, 512, 1024, 2048], {"images_per_s": [1.76e5, 3.56e5, 6.76e5, 1.34e6]}),
    ("dict.md", "", "", [1, 2, 4, 8], {"images_per_s": [3.2e6, 6.1e6, 11.2e6, 18.5e6]}),
    ("mixed.md", "", "", [1, 2, 10, 20], {"images_per_s": [285483, 64449, 70658, 64328]}),
    ("t4qps.md", "", "", [1, 2, 4, 8], {"images_per_s": [1200, 2200, 4000, 7200]}),
    ("qwen.md", "", "", [1, 2, 4], {"images_per_s": [450, 800, 1400]}),
    ("llada.md", "", "", [1, 2, 4, 8], {"images_per_s": [12, 22, 44, 86]}),
    ("agents.md", "", "", [1, 2, 4, 8], {"images_per_s": [50, 100, 200, 500]}),
    ("zero.md", "", "", [1, 4, 8, 32, 64], {"images_per_s": [2400, 6480, 5600, 4200, 3100]}),
    ("parallel_llm.md", "", "", [8, 16, 32], {"images_per_s": [2.5e6, 4.8e6, 9.2e6]}),
    ("gpt_codes.md", "OneFlow", "", [1, 8, 16, 32], {"images_per_s": [4.92, 38.28, 65.35, 123.4]}),
    ("se3.md", "mixed precision", "", [1, 1, 8, 8], {"images_per_s": [3230, 1890, 21420, 13230],
      "batch_per_rank": [240, 120, 240, 120]}),
    ("mxnet_rn50.md", "TF32", "", [1, 4, 8], {"images_per_s": [1055.78, 4182.30, 8247.44]}),
    ("fastspeech.md", "mixed precision", "", [1, 4, 8], {"images_per_s": [63431, 162847, 188251],
      "speedup": [1, 2.57, 2.97]}),
    ("nnunet.md", "TF32", "", [1, 1, 1, 8, 8, 8], {"images_per_s": [732.22, 797.37, 838.38, 5588.2, 6246.95, 6631.08]}),
    ("tacotron2.md", "TF32", "", [1, 4, 8], {"wall_s": [94 * 3600, 25 * 3600, 14 * 3600]}),
    ("gemm.md", "", "", [1, 4, 16], {"wall_s": [0.323, 0.154, 0.085]}),
    ("vast.md", "", "", [1, 1, 3], {"wall_s": [4 * 86400, 10 * 86400, 3.5 * 86400]}),
    ("h100.md", "Baseline", "", [1, 2, 4], {"wall_s": [14.8 * 86400, 7.6 * 86400, 3.9 * 86400]}),
    ("swap.md", "", "", [4, 8, 16], {"images_per_s": [1700, 3500, 7000]}),
    ("taken.md", "Multiprocessing", "", [5, 10, 15], {"wall_s": [1.152, 1.3786, 1.8513]}),
    ("mandel.md", "", "", [1, 2, 5, 10, 20, 30, 40, 50], {"wall_s": [163, 90, 72, 49, 42, 41, 38, 35]}),
    ("paratest.md", "", "", [1, 2, 4, 8], {"wall_s": [60, 32, 18, 12]}),
    ("crack.md", "", "", [1, 2, 4, 8], {"wall_s": [437.91, 237.22, 154.18, 172.51]}),
    ("crawl.md", "", "", [1, 10, 50, 100, 200], {"wall_s": [9720, 9720, 19800, 97200, 518400]}),
    ("option.md", "", "", [2, 4], {"wall_s": [23400, 10800]}),
    ("box.md", "RHEL 9", "", [1, 4, 8], {"efficiency": [1, 0.945, 0.891]}),
    ("relative.md", "(TP)", "", [1, 4, 8], {"speedup": [1, 1, 1]}),
    ("overlap.md", "Blocking", "", [4, 8], {"job_s": [20.987808, 10.513724]}),
    ("abe.md", "O1", "", [1, 2, 4, 8, 16, 30], {"wall_s": [292, 209, 165, 141, 127, 117]}),
    ("abe.md", "OMP 2", "", [30, 15], {"wall_s": [87, 96]}),
    ("llava.md", "", "", [1, 2], {"images_per_s": [3.585, 6.773], "global_batch": [16, 32]}),
    ("linreg.md", "n 500,000", "", [1, 2], {"wall_s": [0.119, 0.081]}),
    ("uma.md", "FairChem FC", "", [1, 2, 4], {"wall_s": [345.5, 193.2, 118]}),
    ("rays.md", "light intersect pipelined", "", [1, 2], {"wall_s": [1.27e-3, 4.63e-3]}),
    ("docling.md", "Workers 24", "", [1, 2, 4], {"wall_s": [535.8, 298.6, 237.6]}),
    ("docling.md", "line 3", "", [1, 2, 4, 8], {"wall_s": [305.3, 304.3, 310.2, 305.6]}),
    ("fabric.md", "", "", [8, 16, 16, 16], {"images_per_s": [29000, 23000, 50400, 57300]}),
    ("te.md", "", "", [1, 2], {"images_per_s": [245620, 484343]}),
    ("eurosat.md", "", "", [1, 2], {"efficiency": [1, 0.5]}),
    ("nccl_speedup.md", "NCCL", "", [1, 2, 4, 8], {"speedup": [1, 1.93, 3.6, 6.75]}),
    ("lora.md", "Accelerate", "", [1, 2, 4], {"wall_s": [2160, 1110, 570]}),
    ("spectral.md", "Strong Scaling (256³ grid)", "", [1, 2, 4, 8], {"step_s": [6.5e-3, 3.4e-3, 1.8e-3, 1e-3]}),
    ("bi.md", "", "", [1, 8], {"images_per_s": [144.5, 322.74]}),
    ("pca.md", "", "", [1, 1, 1, 16], {"wall_s": [2.273, 4.979, 4.889, 0.757]}),
    ("dbnet.md", "PyNative", "", [1, 8], {"images_per_s": [95, 381], "batch_per_rank": [16, 8]}),
    ("arcface.md", "", "", [8, 16, 32, 16, 16, 32, 32], {"images_per_s": [5900, 11000, 17000, 5200, 5200, 10000, 9800],
      "batch_per_rank": [512, 512, 128, 128, 256, 512, 128]}),
    ("fleet_resnet.rst", "", "", [1, 8, 16, 32], {"images_per_s": [335.43, 2488.49, 4629.71, 9093.41]}),
    ("cascade_rcnn.md", "", "", [8, 16, 32, 64], {"wall_s": [26400, 15600, 10140, 9360],
      "batch_per_rank": [4, 4, 4, 2]}),
    ("dle_efficientdet.md", "DGX A100 (8x A100 80GB) mixed", "", [1, 8], {"speedup": [1, 6.82],
      "batch_per_rank": [200, 200]}),
    ("dle_efficientnet.md", "A100 (8x A100 80GB) TF32", "", [1, 8, 16, 1, 8, 16, 32, 64],
     {"images_per_s": [1078, 8193, 16137, 157, 1223, 2417, 4813, 9146]}),
    ("nemo.md", "pretraining", "", [512, 64, 64, 8], {"images_per_s_per_rank": [741, 23117, 5611, 16154]}),
    ("dle_unet.md", "performance: NVIDIA DGX A100 (8x A100 80G) TF32", "", [1, 1, 8, 8],
     {"images_per_s": [46.88, 63.33, 298.91, 470.5]}),
    ("fleet_matching.md", "Distributed", "", [20, 10, 5, 20, 10, 5], {"epoch_s": [54, 103, 198, 42, 81, 159],
      "batch_per_rank": [100] * 3 + [1000] * 3}),
    ("retinanet.md", "", "", [8, 8, 16, 32, 64], {"epoch_s": [1920, 1680, 1020, 660, 420]}),
    ("mxnet_scaling.md", "inception", "", [1, 2, 4, 8, 16], {"images_per_s": [30.4, 59.61, 117.9, 233.39, 447.61]}),
    ("faster_rcnn.md", "", "", [8, 16, 32, 64], {"wall_s": [18900, 10200, 5220, 3360]}),
    ("dgl_multigpu.md", "", "", [1, 2, 4, 8], {"epoch_s": [45, 12.1, 7.6, 4.7]}),
    ("dlperf_zero.md", "zero-stage-1", "", [8, 16, 32], {"images_per_s": [195.8, 261, 506]}),
    ("dlperf_megatron.md", "on_optimization", "", [8, 8, 16, 32], {"batch_per_rank": [1, 4, 4, 4]}),
    ("dlperf_wdl.md", "fixed total", "", [1, 2, 4, 8], {"global_batch": [16384] * 4}),
    ("dlperf_wdl.md", "batch size X 2", "", [1] * 11 + [8],
     {"step_s": [1.129e-3, 1.503e-3, 2.414e-3, 4.246e-3, 7.609e-3, 14.207e-3, 26.834e-3, 53.775e-3, 0.107333, 0.223564,
       0.449482, 2.754e-3]}),
    ("deepwalk.md", "", "", [1, 2, 4], {"wall_s": [1419.64, 952.04, 428.89]}),
    ("colossal.md", "", "", [8, 16, 8, 16], {"images_per_s": [17.13, 3.27, 25.83, 5.66]}),
    ("spark.md", "", "", [1, 2, 4], {"images_per_s": [483.83, 466.48, 384.08]}),
    ("unity.md", "", "", [1, 2, 8], {"efficiency": [1, 1, 0.75]}),
    ("spec.md", "Candidate", "", [1, 2, 4, 8], {"speedup": [1.06, 1.23, 1.41, 1.43]}),
    ("oldnew.md", "New", "", [1, 2, 4, 8], {"wall_s": [9000, 4680, 2760, 1440]}),
    ("ferro.md", "", "", [1, 2, 2, 2], {"step_s": [0.048, 0.129, 5.384, 5.174]}),
    ("accum.md", "8 GPUs 4", "", [1, 8], {"images_per_s": [185182, 1410960], "global_batch": [524288, 524288]}),
    ("sek.md", "", "", [1, 2, 4, 8], {"images_per_s": [320, 580, 1050, 1850]}),
    ("mamba.md", "", "", [1, 2, 4, 8, 16], {"images_per_s": [12300, 23800, 46100, 89400, 172000]}),
    ("ninety.md", "", "", [8, 16, 32, 64], {"images_per_s": [87933, 158280, 316560, 633119]}),
    ("newton.md", "", "", [72, 144], {"wall_s": [13725, 7479]}),
    ("bss.md", "", "bsscm8", [192, 384, 768, 1536, 3072], {"efficiency": [1, 0.989, 0.883, 0.661, 0.718]}),
    ("makani.md", "", "", [4, 8, 16, 32], {"step_s": [0.1447, 0.1457, 0.1995, 0.2153]}),
    ("intern.md", "Training Performance", "", [8, 16, 32, 64], {"images_per_s_per_rank": [4078, 3939, 3919, 3944]}),
    ("intern.md", "Micro Num 2", "", [512, 1024], {"images_per_s_per_rank": [3084, 2817]}),
    ("deepmd.md", "", "", [1, 2, 4, 8], {"images_per_s": [68.89, 125.3, 226.84, 463.28]}),
    ("vit.md", "", "", [16] * 4, {"images_per_s": [7350, 1580, 519, 1580]}),
    ("t5x.md", "", "", [8, 64, 256, 512], {"batch_per_rank": [256, 32, 8, 36]}),
    ("dle_seresnext.md", "A100 (8x A100 80GB) TF32", "", [1, 8], {"speedup": [1, 7.56]}),
    ("sedona.md", "physical", "", [1, 2, 4, 8, 12, 14], {"wall_s": [5.282, 2.196, 1.187, 0.706, 0.704, 0.95]}),
    ("forge.md", "", "", [1, 2, 4], {"wall_s": [3.206, 1.648, 1.062]}),
    ("lanes.md", "", "", [1, 2, 3], {"images_per_s": [72.59, 137.01, 188.23]}),
    ("scalapack.md", "ScaLAPACK", "", [4, 8], {"wall_s": [12.6, 10.3]}),
    ("fortran.md", "lang f", "", [1, 2, 4], {"speedup": [1, 1.91, 1.54]}),
    ("waveglow.md", "mixed precision", "", [1, 4, 8], {"batch_per_rank": [10, 10, 10]}),
    ("waveglow.md", "TF32", "", [1, 4, 8], {"speedup": [1, 3.46, 5.67], "batch_per_rank": [4, 4, 4]}),
    ("stepvideo.md", "", "", [1, 2, 2, 4, 4, 8, 8], {"step_s": [213.6, 108.97, 108.13, 57.61, 57.01, 30.4, 30.1]}),
    ("bert4rec.md", "DMP", "", [1, 4, 8], {"images_per_s": [324.24, 1058.56, 2225.28]}),
    ("oneflow_bert.md", "= 64", "", [1, 2, 4, 8, 16, 32], {"speedup": [1, 1.91, 3.81, 7.6, 13.94, 27.2]}),
    ("dle_bert.md", "mixed precision", "", [1, 4, 8, 1, 4, 8], {"batch_per_rank": [16, 16, 16, 4, 4, 4]}),
    ("keras_cifar10.csv", "nccl TRUE", "", [2, 2, 3, 3, 4, 5, 6],
     {"images_per_s": [17183.4, 17438.76, 21825.34, 13376.63, 17232.97, 20651.11, 38547.11]}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "setting", "machine", "ranks", "quantities"), CURVES)
def test_one_curve_of_each_table(name, setting, machine, ranks, quantities):
    runs = read(name).runs
    if setting:
        runs = runs[runs["setting"].str.contains(setting, regex=False)]
    if machine:
        runs = runs[runs["machine"].eq(machine)]
    if name == "keras_cifar10.csv":
        runs = runs[runs["batch_per_rank"].eq(4096)]
    assert column(runs, "ranks")[: len(ranks)] == ranks
    for quantity, values in quantities.items():
        expected = values if isinstance(values[0], str) else pytest.approx(values)
        assert column(runs, quantity)[: len(ranks)] == expected, quantity


def test_step_times_of_nodes_and_replicas_in_the_last_row():
    *others, last = read("adaptdl_imagenet.csv").runs.to_dict("records")
    assert len(others) == 17
    assert (last["nodes"], last["ranks_per_node"], last["ranks"], last["batch_per_rank"]) == (16, 4, 64, 200)
    assert last["images_per_s"] == pytest.approx(200 * 64 / 1.0868985652923584)


def test_tables_that_do_not_scale_are_named_in_one_line():
    notes = [note for note in read("dle_unet.md").notes if "no scaling table" in note]
    assert len(notes) == 1
    assert "1 other tables are no scaling tables (from lines 43)" in notes[0]
    with pytest.raises(TableError):
        read("../published/README.md")


def test_a_ratio_of_two_settings_is_no_speedup():
    result = read("overlap.md")
    assert "speedup" not in result.runs
    assert any("column 'Speedup' is a ratio of two settings" in note for note in result.notes)


def test_whose_rate_is_flat_is_asked_for():
    path = FOLDER / "video.md"
    with pytest.raises(TableError, match='say COLUMNS="ips=images_per_s_per_rank" or COLUMNS="ips=images_per_s"'):
        table.read(path)
    runs = table.read(path, "ips=images_per_s_per_rank").runs
    assert column(runs, "images_per_s_per_rank") == [4.53887, 13.83729, 4.28733, 13.00625]


def test_a_table_without_headers_is_read_where_the_user_says_what_its_columns_are():
    path = FOLDER / "bsc_no_headers.txt"
    with pytest.raises(TableError, match="without headers"):
        table.read(path)
    runs = table.read(path, "1=ranks,2=wall_s,3=model").runs
    assert column(runs, "ranks") == [4, 32, 8, 2, 1, 16]
    assert column(runs, "wall_s")[0] == 205.21682715415955
