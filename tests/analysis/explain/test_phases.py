import pandas as pd

from analysis.explain.phases import phases

RUN = {"ranks": [2], "steps_per_rank": 14, "batch_per_rank": 64, "wall_s": 35.5, "images_per_s_per_rank": 32.0}


def test_phases_show_where_the_fixed_cost_went():
    # Steps of 64 / 32 = 2 s: of a first step of 5 s, 3 are tracing; of 3 warm-up and 10 timed steps, 29 s, 3 are extra.
    points = pd.DataFrame(RUN).assign(
        phase_broadcast_s=1.0, phase_first_step_s=5.0, phase_warm_up_s=9.0, phase_timed_s=20.0
    )
    split = phases(points).iloc[0]
    assert split[["broadcast_s", "first_step_s", "warm_up_s", "other_s", "fixed_s"]].tolist() == [1, 3, 3, 0.5, 7.5]


def test_published_numbers_have_no_phases():
    assert phases(pd.DataFrame(RUN)).empty
