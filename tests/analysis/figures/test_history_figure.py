import pytest

from analysis.compare import sessions
from analysis.figures.history_figure import draw
from analysis.study import Study, record_files
from tests.helpers.studies import month, month_of_allreduce

pytestmark = pytest.mark.slow


def drawn(results):
    """The figure of the history of the records of one machine."""
    study = Study(*record_files(results.folder), every_generation=True)
    [machine] = sessions.compare_sessions(sessions.sessions(study.local, study.records), 0.05).machines
    return draw(machine, 0.05)


def test_a_panel_a_model_of_the_throughput_of_its_points(results):
    for generation in range(2):
        for model in ("resnet50", "vgg16", "inceptionv3"):
            month(results.folder, generation, model=model)
    figure = drawn(results)
    panels = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title(loc="left") for axes in panels] == ["Inception v3", "ResNet50", "VGG16"]
    assert [axes.get_ylabel() for axes in panels] == ["throughput, over before", "", "throughput, over before"]
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["1 node", "alike", "2 nodes"]
    assert figure.get_figheight() * 25.4 < 120
    shown = [axes.xaxis.get_tick_params()["labelbottom"] for axes in panels]
    assert shown == [False, True, True]


def test_allreduce_has_its_bandwidth(results):
    for generation in range(2):
        month_of_allreduce(results.folder, generation)
    [axes] = drawn(results).axes
    assert (axes.get_title(loc="left"), axes.get_ylabel()) == ("allreduce", "bus bandwidth, over before")
