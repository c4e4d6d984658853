"""Rules over the runs of a user's table: each fault is found, and nothing is alleged of the same table without it."""

import pytest

from analysis.audit import user_runs
from analysis.user_table import table


def found(tmp_path, rule, text):
    path = tmp_path / "t.csv"
    path.write_text(text)
    return list(user_runs.RUN_RULES[rule](table.read(path)))


@pytest.mark.parametrize(
    ("text", "alleged"),
    [
        # 100 images/s x 0.64 s are the 64 images of a step; x 0.9 s they are 90
        ("GPUs,batch per GPU,images/s,step time (s)\n1,64,100,0.64\n2,64,200,0.64\n", []),
        ("GPUs,batch per GPU,images/s,step time (s)\n1,64,100,0.64\n2,64,200,0.90\n", [0.40625]),
        # an epoch has 100 x 500 = 50,000 images on one GPU, and 95,000 on two
        ("GPUs,images/s,epoch time (s)\n1,100,500\n2,190,263\n", []),
        ("GPUs,images/s,epoch time (s)\n1,100,500\n2,190,500\n", [0.9]),
        # the run has 50,000 images: at 190 images/s they take 263 s, not 100 s; start-up may make it longer
        ("GPUs,total images/s,training time (s),images\n1,100,500,50000\n2,190,300,50000\n", []),
        ("GPUs,total images/s,training time (s),images\n1,100,500,50000\n2,190,100,50000\n", [-0.62]),
        ("GPUs,total tok/s,epoch time (s)\n1,100,500\n2,190,500\n", []),  # tokens are no images
    ],
)
def test_rate_times_time(tmp_path, text, alleged):
    assert [one.off for one in found(tmp_path, "rate_times_time", text)] == pytest.approx(alleged)


@pytest.mark.parametrize(
    ("text", "alleged"),
    [
        ("GPUs,time (s),speedup\n1,163,1\n2,93,1.75\n4,47,3.47\n", 0),
        ("GPUs,time (s),speedup\n1,163,1\n2,93,1.72\n4,47,3.47\n", 1),  # 163 / 93 = 1.753: 1.74 to 1.77
        ("GPUs,time (s),efficiency\n1,163,100%\n2,93,88%\n4,47,87%\n", 0),
        ("GPUs,time (s),efficiency\n1,163,100%\n2,93,88%\n4,47,95%\n", 1),  # 163 / 47 / 4 = 87 %
        ("GPUs,time (s),efficiency\n1,163,100%\n2,165,99%\n4,170,96%\n", 0),  # weak scaling: 163 / 170
        ("GPUs,time (s),speedup\n1,163,1\n2,165,1.98\n4,170,3.84\n", 0),  # and its speedup, 4 x 163 / 170
        ("GPUs,time (s),speedup\n1,1.3975,1.05\n2,0.5858,2.51\n4,0.8408,1.75\n", 0),  # over a serial program
        ("GPUs,setup,time (s),speedup\n1,one,60,1\n4,several,17,3.5\n8,several,9,6.7\n", 0),  # a base in another row
    ],
)
def test_speedups_from_times(tmp_path, text, alleged):
    assert len(found(tmp_path, "speedup_from_times", text)) == alleged


@pytest.mark.parametrize(
    ("model", "gpu", "dataset", "rate", "severity"),
    [
        ("ResNet-50", "K80", "ImageNet", 60, None),
        ("ResNet-50", "K80", "ImageNet", 8000, "serious"),
        ("resnet_v1_50", "Tesla K80", "ilsvrc2012", 8000, "serious"),
        ("ResNet-50", "K80", "CIFAR-10", 8000, "note"),  # images of 32 x 32 take 1/49 of the operations
        ("ResNet-50", "V100", "ImageNet", 1450, None),
        ("ResNet-50", "A100", "ImageNet", 3200, None),
        ("ResNet-500", "K80", "ImageNet", 8000, None),  # not a known model
    ],
)
def test_rates_that_no_device_reaches(tmp_path, model, gpu, dataset, rate, severity):
    text = (
        f"model,gpu,dataset,GPUs,images/s per GPU\n{model},{gpu},{dataset},1,{rate}\n{model},{gpu},{dataset},2,{rate}\n"
    )
    severities = {one.severity for one in found(tmp_path, "impossible_rate", text)}
    assert severities == ({severity} if severity else set())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("GPUs,precision,img/s,speedup\n1,fp32,100,1\n2,fp32,190,1.9\n1,fp16,200,1\n2,fp16,380,1.9\n", ""),
        ("GPUs,precision,img/s,speedup\n1,fp32,100,1\n2,fp16,380,3.8\n4,fp16,700,7\n", "precision: fp32 and fp16"),
        ("GPUs,gpu,img/s,speedup\n1,K80,50,1\n4,V100,1400,28\n8,V100,2800,56\n", "gpu: K80 and V100"),
        ("GPUs,batch per GPU,img/s,speedup\n1,64,100,1\n2,64,190,1.9\n", ""),
        ("GPUs,batch per GPU,img/s,speedup\n1,64,100,1\n2,32,190,1.9\n", ""),  # strong scaling
        ("GPUs,batch per GPU,img/s,speedup\n1,,100,1\n2,,190,1.9\n4,32,360,3.6\n", ""),  # a batch that is not given
        ("GPUs,batch per GPU,img/s,speedup\n1,64,100,1\n2,256,210,2.1\n", "the batch of a rank: 64.0 and 256.0"),
    ],
)
def test_speedups_over_a_base_in_another_condition(tmp_path, text, says):
    findings = found(tmp_path, "different_conditions", text)
    assert bool(findings) == bool(says)
    assert all(says in one.follows for one in findings)
