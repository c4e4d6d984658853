import pandas as pd

from analysis.explain import fit, words

# 4 s once, then 0.1 s a step of 10 images.
STEPS = {2: 320, 4: 160, 8: 80, 16: 40, 32: 20}
POINTS = pd.DataFrame(
    {
        "model": "",
        "ranks": list(STEPS),
        "steps_per_rank": list(STEPS.values()),
        "batch_per_rank": 10,
        "wall_s": [4 + 0.1 * steps for steps in STEPS.values()],
        "images_per_s_per_rank": 100.0,
    }
)


def test_the_sentences_say_what_is_paid_once_and_what_speed_that_implies():
    said = words.sentences(fit.explain(POINTS))
    assert said[0].startswith("They differ because each run pays 4 s (4 to 4) once")
    assert "from 320 on 2 to 20 on 32" in said[0]
    assert "On 32 ranks: 16.0x by speed, 6.0x by wall time, 16.0x by wall time without the fixed cost" in said[1]
    assert "The cost per step implies 100 images/s a rank" in said[2]


def test_the_report_fits_a_hundred_columns():
    text = words.report(fit.explain(POINTS, "a curve"), fit.phases(POINTS))
    assert text.startswith("== a curve")
    assert max(map(len, text.splitlines())) <= 100
