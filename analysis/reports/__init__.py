"""The five reports: one module a report with its figures, and the derived numbers that they print, recomputed."""

TITLES = {
    "000": "report 000, HackSA: VGG, Inception and ResNet with Horovod",
    "001": "report 001, OSU: TensorFlow and Horovod on Owens",
    "002": "report 002, BNL: distributed TensorFlow on a GPU cluster",
    "003": "report 003, spreadsheet over the TensorFlow benchmarks of 2017",
    "004": "report 004, MSOE: multi-GPU training with Horovod",
    "local": "local records",
}
