"""Cases from the field: values sit at the version they speak of, and versions never go backward."""

from tests.exporter.conftest import StartedExporter
from tests.page import check_page
from tests.wire import Emitter, Scrape, scrape_until


def newest_version_label(page: Scrape, run: str) -> int:
    return max(
        int(dict(labels)["param_version"])
        for name, labels in page.samples
        if name.startswith("asyncrl_version_") and ("run", run) in labels
    )


def test_c02_a_validation_sits_at_its_version_however_far_the_prompt_counter_is(
    exporter: StartedExporter,
) -> None:
    queue = Emitter(exporter.otlp, role="queue", source="q0")
    trainer = Emitter(exporter.otlp)
    fed = queue.sum("asyncrl.samples.fed", 210, start=1.0)
    assert queue.post_metrics(fed).rejected == 0
    for version in range(1, 5):
        trainer.post(*trainer.window(version, [{"policy_loss": float(version)}]))
    validation = trainer.span(
        "validation", 4, {"asyncrl.sample_count": 32}, values={"exact_match_ratio": 0.75, "reward": 0.5}
    )
    assert trainer.post(validation).rejected == 0
    page = scrape_until(
        exporter.metrics,
        lambda page: page.by_label("asyncrl_version_validation_exact_match_ratio", "param_version", run="r"),
    )
    assert page.by_label("asyncrl_version_validation_exact_match_ratio", "param_version", run="r") == {
        "4": 0.75
    }
    assert page.by_label("asyncrl_version_validation_reward_mean", "param_version", run="r") == {"4": 0.5}
    assert page.by_label("asyncrl_version_validation_samples", "param_version", run="r") == {"4": 32.0}
    assert page.value("asyncrl_samples_fed_total", run="r") == 210
    assert page.value("asyncrl_param_version", run="r") == 4
    assert newest_version_label(page, "r") == 4
    check_page(page.text, page.content_type)


def test_c07_late_steps_are_refused_and_counted_and_move_nowhere(exporter: StartedExporter) -> None:
    rollouter = Emitter(exporter.otlp, role="rollouter", source="r0")
    tick = rollouter.gauge("asyncrl.rollouter.param_version", 8073, {"asyncrl.rollouter": "0"})
    assert rollouter.post_metrics(tick).rejected == 0  # the faster producer is far ahead already
    trainer = Emitter(exporter.otlp)
    assert trainer.post(trainer.weight_sync(0, 0)).rejected == 0
    for version in range(1, 11):
        assert trainer.post(*trainer.window(version, [{"policy_loss": float(version)}])).rejected == 0
    sealed = scrape_until(
        exporter.metrics,
        lambda page: page.value("asyncrl_versions_sealed_total", run="r", complete="true") == 10,
    )
    before = sealed.by_label("asyncrl_version_policy_loss", "param_version", run="r")
    assert before == {str(version): float(version) for version in range(1, 11)}
    assert sealed.value("asyncrl_late_records_total", run="r", reason="sealed") == 0

    for version in (8, 10):
        answer = trainer.post(trainer.train_step(version, 100 + version, values={"policy_loss": 999.0}))
        assert (answer.status, answer.rejected) == (200, 1)
        assert "sealed" in answer.reason
        assert f"version {version}" in answer.reason
    annex = trainer.span("validation", 8, values={"exact_match_ratio": 0.25})
    assert trainer.post(annex).rejected == 0  # an annex is never late
    trainer.post(*trainer.window(11, [{"policy_loss": 11.0}]))
    page = scrape_until(exporter.metrics, lambda page: page.value("asyncrl_policy_loss", run="r") == 11.0)
    assert page.value("asyncrl_late_records_total", run="r", reason="sealed") == 2
    assert page.by_label("asyncrl_version_policy_loss", "param_version", run="r") == before | {"11": 11.0}
    assert page.by_label("asyncrl_version_train_steps", "param_version", run="r")["11"] == 1
    assert page.by_label("asyncrl_version_validation_exact_match_ratio", "param_version", run="r") == {
        "8": 0.25
    }
    check_page(page.text, page.content_type)


def test_c28_a_version_never_goes_back_within_an_attempt(exporter: StartedExporter) -> None:
    trainer = Emitter(exporter.otlp)
    for version in (55, 56, 57):
        trainer.post(*trainer.window(version, [{"policy_loss": float(version)}]))
    scrape_until(exporter.metrics, lambda page: page.value("asyncrl_policy_loss", run="r") == 57.0)

    answer = trainer.post(trainer.weight_sync(1, 1))
    assert answer.rejected == 1
    assert "version_backward" in answer.reason
    negative = trainer.train_step(58, 4, values={"staleness": -55.0, "policy_loss": 58.0}, sample_count=8)
    assert trainer.post(negative, trainer.weight_sync(58, 1)).status == 200
    page = scrape_until(exporter.metrics, lambda page: page.value("asyncrl_param_version", run="r") == 58)
    assert page.value("asyncrl_rejected_records_total", run="r", reason="version_backward") == 1
    assert page.value("asyncrl_out_of_range_values_total", run="r", metric="staleness") == 1
    assert page.by_label("asyncrl_staleness_mean_versions", "run") == {}
    assert page.by_label("asyncrl_version_policy_loss", "param_version", run="r") == {
        str(version): float(version) for version in (55, 56, 57, 58)
    }
    assert page.value("asyncrl_run_attempt", run="r") == 1
    check_page(page.text, page.content_type)


def test_c28_a_resume_from_a_checkpoint_is_the_next_attempt(exporter: StartedExporter) -> None:
    first = Emitter(exporter.otlp)
    for version in (55, 56, 57):
        first.post(*first.window(version, [{"policy_loss": float(version)}]))
    scrape_until(exporter.metrics, lambda page: page.value("asyncrl_policy_loss", run="r") == 57.0)
    resumed = Emitter(exporter.otlp, source="t1", attempt=2)
    assert resumed.post(resumed.weight_sync(50, 0)).rejected == 0
    assert resumed.post(*resumed.window(51, [{"policy_loss": 0.51}])).rejected == 0
    page = scrape_until(exporter.metrics, lambda page: page.value("asyncrl_policy_loss", run="r") == 0.51)
    assert page.value("asyncrl_run_attempt", run="r") == 2
    assert page.value("asyncrl_param_version", run="r") == 51
    assert page.value("asyncrl_version_policy_loss", run="r", attempt=1, param_version=57) == 57.0
    assert page.value("asyncrl_version_policy_loss", run="r", attempt=2, param_version=51) == 0.51
    check_page(page.text, page.content_type)
