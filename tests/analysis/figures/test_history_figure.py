import pytest

from analysis.compare import sessions
from analysis.figures.history_figure import draw
from analysis.study import Study, record_files
from tests.helpers.studies import month, month_of_allreduce

pytestmark = pytest.mark.slow


def test_a_panel_a_model_and_one_of_allreduce(tmp_path):
    for generation in range(2):
        month(tmp_path / "models", generation)
        month(tmp_path / "models", generation, model="vgg16")
        month_of_allreduce(tmp_path / "allreduce", generation)
    throughput, bandwidth = "throughput, over before", "bus bandwidth, over before"
    for folder, panels in (
        ("models", {"ResNet50": throughput, "VGG16": ""}),
        ("allreduce", {"allreduce": bandwidth}),
    ):
        study = Study(*record_files(tmp_path / folder), every_generation=True)
        [machine] = sessions.compare_sessions(sessions.sessions(study.local, study.records), 0.05).machines
        visible = [axes for axes in draw(machine, 0.05).axes if axes.get_visible()]
        assert {axes.get_title(loc="left"): axes.get_ylabel() for axes in visible} == panels
