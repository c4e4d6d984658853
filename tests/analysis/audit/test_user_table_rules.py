import json
from pathlib import Path

import numpy as np
import pytest

from analysis import audit
from analysis.audit import user_table_rules
from analysis.user_table import table_contract
from benchmarks import faulty_studies as studies
from tests.helpers.rule_findings import check
from tests.helpers.tidy_rows import curve, table


def read(tmp_path, text):
    path = tmp_path / "study.csv"
    path.write_text(text)
    return table_contract.read_table(path)


def alleged(study, path):
    """The rules that fire with a warning or worse."""
    study.to_csv(path, index=False)
    result, _ = audit.user_table_findings(table_contract.read_table(path))
    return {finding.rule for finding in result if finding.severity != "note"}


def test_a_plain_study_as_a_tidy_table(tmp_path):
    text = "vgg16,1,100,64,70.5,100\nvgg16,4,25,64,20.5,90\nvgg16,4,25,64,20.7,\n"
    header = "model,gpus,steps_per_worker,batch_per_gpu,train_s,images_per_s_per_gpu\n"
    tidy, notes = user_table_rules.tidy_study(read(tmp_path, header + text))
    rates = tidy[tidy["quantity"].eq("images_per_s")]
    assert rates["value"].tolist() == [100, 360]
    assert rates["global_batch"].tolist() == [64, 256]
    walls = tidy[tidy["quantity"].eq("wall_s")]
    assert walls["place"].tolist() == ["study.csv, line 2", "study.csv, line 3", "study.csv, line 4"]
    assert walls["repeat"].fillna(-1).tolist() == [-1, 0, 1]  # two runs of one configuration are repeats
    assert notes[0].endswith("study.csv, line 4, column 'images_per_s_per_gpu': empty")
    assert "they are repeats here" in notes[1]
    assert all(note.startswith(("rules that ", "identities that ")) for note in notes[2:])


def test_a_tidy_table_is_read_as_it_is(tmp_path):
    path = tmp_path / "tidy.csv"
    rows = table(*curve("images_per_s", {1: 100, 2: 190, 4: 560}, report=""))
    rows.to_csv(path, index=False)
    result, notes = audit.user_table_findings(table_contract.read_table(path))
    (beyond,) = [finding for finding in result if finding.rule == "beyond_ideal"]
    assert (beyond.report, beyond.off) == ("tidy.csv", pytest.approx(0.4))
    assert all(note.startswith(("rules that ", "identities that ")) for note in notes)


@pytest.mark.parametrize(
    ("times", "columns", "alleged_at"),
    [
        ((35, 3.9, 1.0), "scaling=strong", ["t.csv, line 4: 4 ranks"]),  # 35 / 1.0 on 4 times as many ranks
        ((35, 18, 9.5), "scaling=strong", []),
        ((35, 36, 37), "scaling=weak", []),
        ((35, 12, 7), "scaling=weak", ["t.csv, line 4: 4 ranks"]),  # 4 x 35 / 7 = 20 times the work
    ],
)
def test_times_are_held_against_the_number_of_ranks_as_rates_are(tmp_path, times, columns, alleged_at):
    path = tmp_path / "t.csv"
    path.write_text("ranks,time (s)\n" + "".join(f"{2**n},{time}\n" for n, time in enumerate(times)))
    findings = list(user_table_rules.times_beyond_ideal(table_contract.read_table(path, columns)))
    assert [finding.place for finding in findings] == alleged_at
    assert all("wall_s" in finding.stated and finding.severity == "serious" for finding in findings)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(studies.FAULTS))
def test_each_kind_of_fault_in_a_study_is_found(name, tmp_path):
    """The study has 1 % of noise; benchmarks/audit_power.py counts how often a fault is found."""
    _, expected = studies.FAULTS[name]
    assert alleged(studies.faulty(np.random.default_rng(3), name), tmp_path / "study.csv") & set(expected)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.9, 0.97, 1.0])
def test_a_clean_study_with_repeats_has_no_finding(share, tmp_path):
    study = studies.clean(np.random.default_rng(5), studies.Truth(noise=0.01, repeats=3, per_doubling=share))
    assert alleged(study, tmp_path / "study.csv") == set()


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "faulty"), [((1, 2, 4), False), ((4,), False), ((1,), False), ((1, 2, 4), True)])
def test_several_works_at_one_number_of_ranks_are_no_repeats_and_no_unequal_work(tmp_path, ranks, faulty):
    """The design that `explain` recommends: several works on `ranks`, a single one on other numbers of ranks."""
    rng = np.random.default_rng(7)
    rows = [(n, steps) for n in (1, 2, 4, 8) for steps in ((3200, 1600, 400) if n in ranks else (3200 // n,))]
    lines = ["GPUs,steps,batch per GPU,time,images/s per GPU"]
    for number, (n, steps) in enumerate(rows):
        wall_s = (10 + steps * 64 / 100) * rng.normal(1, 0.003) * (1.5 if faulty and number == 2 else 1)
        lines.append(f"{n},{steps},64,{wall_s:.2f},{100 * rng.normal(1, 0.003):.3f}")
    result, _ = audit.user_table_findings(read(tmp_path, "\n".join(lines)))
    rules = {finding.rule for finding in result if finding.severity != "note"}
    assert rules == ({"wall_time_misfit"} if faulty else set())
    assert "unequal_work" not in {finding.rule for finding in result}


PUBLISHED = Path(__file__).parents[1] / "user_table/published"
_CURVES = map(json.loads, PUBLISHED.with_suffix(".jsonl").read_text().splitlines())
ANSWERS = {curve["file"]: curve["columns"] for curve in _CURVES if "/" not in curve["file"]}  # to what the reader asks
# The findings in tables as published, with a warning or worse; each was checked by hand against the table.
ALLEGED = {
    "dgl_multigpu.md": {"times_beyond_ideal"},  # epochs of 45.0 s on one GPU and 12.1 s on two
    "dle_efficientnet.md": {"beyond_ideal"},  # 8 V100 17.6 times the img/s of one
    "dle_gnmt.md": {"weak_or_strong"},  # called strong, and each GPU keeps 128
    "llmfoundry.md": {"beyond_ideal"},  # 64 GPUs 2.44 times the tokens/s of 32, which are 16 % slower a GPU than 16
    "lora_grid.md": {"beyond_ideal"},  # 2.55 samples/s on 2 GPUs over 1.18 on one
    # 4 processes 2.81 times as fast as 2; efficiencies are speedups over 2 processes / all processes
    "pwscf.md": {"beyond_ideal", "contradiction", "times_beyond_ideal"},
    "mixed.md": {"more_ranks_no_faster"},  # 64,449 operations/s by 2 threads, 285,483 by one
    "sedona.md": {"beyond_ideal"},  # 2.41 times as fast on 2 cores
    "slora.md": {"beyond_ideal"},  # 7.8 requests/s on 4 GPUs over 3.2 on 2
    "spark.md": {"more_ranks_no_faster"},  # 483.83 rows/s by one worker, 466.48 by two
}


@pytest.mark.slow
@pytest.mark.on_change_of("analysis/")
@pytest.mark.parametrize(("name", "columns"), ANSWERS.items(), ids=str)
def test_published_tables_have_only_true_findings(name, columns):
    result, notes = audit.user_table_findings(table_contract.read_table(PUBLISHED / name, columns))
    assert {finding.rule for finding in result if finding.severity != "note"} == ALLEGED.get(name, set())
    assert any(note.startswith("rules that could not run: ") for note in notes)


# By rule and header: rows and the expected finding. Each fault has the same table without it.
CASES = {
    ("different_conditions", "GPUs,precision,img/s,speedup"): {
        "1,fp32,100,1; 2,fp32,190,1.9; 1,fp16,200,1; 2,fp16,380,1.9": (),
        "1,fp32,100,1; 2,fp32,190,1.9; 4,fp16,700,7": ("warning", None, "precision: fp32 and fp16"),
    },
    ("different_conditions", "GPUs,gpu,total img/s,speedup"): {
        "1,K80,50,1; 4,V100,1400,28": ("warning", None, "gpu: K80 and V100")
    },
    ("different_conditions", "GPUs,batch per GPU,img/s,speedup"): {
        "1,64,100,1; 2,64,190,1.9": (),
        "1,64,100,1; 2,32,190,1.9": (),  # strong scaling
        "1,,100,1; 2,,190,1.9; 4,32,360,3.6": (),  # a batch that is not given
        "1,64,100,1; 2,256,210,2.1": ("warning", None, "the batch of a rank: 64.0 and 256.0"),
    },
    ("weak_or_strong", "GPUs,batch per GPU,images/s,Strong scaling speedup"): {
        "1,64,100,1; 2,64,190,1.9; 4,64,360,3.6": ("warning", None),
        "1,64,100,1; 2,32,190,1.9; 4,16,360,3.6": (),
    },
    ("weak_or_strong", "GPUs,batch per GPU,images/s,Weak scaling speedup"): {
        "1,64,100,1; 2,64,190,1.9; 4,64,360,3.6": (),
        "1,64,100,1; 2,32,190,1.9; 4,16,360,3.6": ("warning", None),
    },
    ("weak_or_strong", "GPUs,batch per GPU,images/s,Speedup"): {"1,64,100,1; 2,64,190,1.9; 4,64,360,3.6": ()},
}


@pytest.mark.parametrize(
    ("rule", "header", "rows", "expected"),
    [(*key, rows, expected) for key, tables in CASES.items() for rows, expected in tables.items()],
)
def test_rules_over_runs(tmp_path, rule, header, rows, expected):
    study = read(tmp_path, "\n".join([header, *rows.split("; ")]))
    check(list(user_table_rules.RUN_RULES[rule](study)), expected)


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
    rows = "".join(f"{model},{gpu},{dataset},{ranks},{rate}\n" for ranks in (1, 2))
    study = read(tmp_path, f"model,gpu,dataset,GPUs,images/s per GPU\n{rows}")
    severities = {finding.severity for finding in user_table_rules.impossible_rate(study)}
    assert severities == {severity} - {None}
