"""A layer report for people, as Markdown tables."""

import math

import numpy as np

from pragworld_interp.layer_report import By, LayerReport, Role, selected, titles
from pragworld_tasks.evaluation import reports


def to_text(report: LayerReport) -> str:
    """The layers, the categories and what they say, as Markdown tables."""
    plain, level = report.plain, f"{report.settings.level:.0%} interval"
    robust = plain.robust_accuracy
    plain_run = f"accuracy {plain.accuracy.percent:.2f}"
    if robust:
        plain_run += f", robust accuracy {robust.percent:.2f}"
    layers = reports.table(
        f"{titles([report.model])[0]}, {report.intervention.name}: {report.data.split}, "
        f"{report.data.documents} documents, {report.data.groups} groups; "
        f"without ablation: {plain_run}",
        [
            *["layer", "%", "points", level],
            *(["robust points"] if robust else []),
            *["Holm p", "of groups", "sign", "evidence", "both halves", "half as whole"],
        ],
        [
            [
                str(layer.layer),
                reports.percent(layer.accuracy.share),
                reports.points(layer.accuracy.difference.points),
                reports.interval(layer.accuracy.difference.interval),
                *(
                    [reports.points(layer.robust_accuracy.difference.points)]
                    if layer.robust_accuracy
                    else []
                ),
                p_text(layer.holm),
                p_text(layer.groups_holm),
                layer.sign,
                layer.evidence,
                _rate(layer.stability.both_halves),
                _rate(layer.stability.as_whole),
            ]
            for layer in report.layers
        ],
    )
    return "\n".join([layers, *_breakdown_tables(report), *_summary(report)])


def p_text(p: float) -> str:
    """A p value with four digits, or a dash where it is not defined."""
    return "-" if math.isnan(p) else "<0.0001" if p < 0.0001 else f"{p:.4f}"


def _breakdown_tables(report: LayerReport) -> list[str]:
    """For each class, the layers whose ablation costs and gains most."""
    breakdowns = {
        "alteration": (
            report.plain.by_alteration,
            [layer.by_alteration for layer in report.layers],
        ),
        "effect": (report.plain.by_effect, [layer.by_effect for layer in report.layers]),
    }
    tables = []
    for breakdown, (plain, layers) in breakdowns.items():
        rows = []
        for name, share in plain.items():
            points = [outcomes[name].difference.points for outcomes in layers]
            low, high = int(np.argmin(points)), int(np.argmax(points))
            rows.append(
                [
                    *[name, str(share.total), reports.percent(share)],
                    *[str(low), reports.points(points[low])],
                    *[str(high), reports.points(points[high])],
                ]
            )
        if rows:
            headers = ["documents", "plain %", "lowest at", "points", "highest at", "points"]
            tables.append(reports.table(f"by {breakdown}", [breakdown, *headers], rows))
    return tables


def _summary(report: LayerReport) -> list[str]:
    evidence = f"both Holm p <= {report.settings.alpha:g}"
    ways: dict[By, str] = {"sign": "by sign", "evidence": evidence}
    roles: tuple[Role, ...] = ("useful", "harmful")
    return [
        f"{role}, {way}: {', '.join(map(str, selected(report, role, by))) or 'none'}"
        for by, way in ways.items()
        for role in roles
    ]


def _rate(value: float) -> str:
    return "-" if math.isnan(value) else f"{100 * value:.0f} %"
