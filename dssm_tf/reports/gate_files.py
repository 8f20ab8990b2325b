"""The result of a gate as files for continuous integration: JUnit XML and Markdown."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from dssm_tf.common.files import atomic_write
from dssm_tf.evaluation.gate import Gate
from dssm_tf.reports.markdown import table

JUNIT, SUMMARY = "gate.xml", "gate.md"


def write_gate(gate: Gate, folder: Path) -> None:
    """Writes `gate.xml`, a test suite with one test case, and `gate.md`, a table."""
    for name, content in ((JUNIT, junit(gate)), (SUMMARY, summary(gate))):
        with atomic_write(folder / name) as file:
            file.write(content)


def junit(gate: Gate) -> str:
    """The JUnit XML. Its only test case fails if the new model is worse."""
    failures = str(int(gate.worse))
    counts = {"tests": "1", "failures": failures, "errors": "0", "skipped": "0"}
    suites = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(suites, "testsuite", {"name": "dssm evaluate", **counts})
    case = ElementTree.SubElement(
        suite, "testcase", {"classname": "dssm.evaluate", "name": gate.title}
    )
    if gate.worse:
        failure = ElementTree.SubElement(case, "failure", {"message": gate.line()})
        failure.text = summary(gate)
    ElementTree.SubElement(case, "system-out").text = gate.line()
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, "unicode", xml_declaration=True) + "\n"


def summary(gate: Gate) -> str:
    """The Markdown: the line of the gate, and a table."""
    low, high = gate.ci95
    rows = [
        [gate.new, f"{gate.new_mean:.3f}"],
        [gate.live, f"{gate.live_mean:.3f}"],
        ["difference", f"{gate.difference:+.3f}"],
        ["95 % interval", f"{low:+.3f} to {high:+.3f}"],
        ["p", f"{gate.p:.2g}"],
        ["tolerance", f"{gate.tolerance:g}"],
        ["queries", f"{gate.queries:,}"],
        ["queries left out, because a model has learned their clicks", f"{gate.left_out:,}"],
    ]
    verdict = "Worse" if gate.worse else "Not worse"
    cells = table(["", gate.metric], rows)
    return f"# {verdict}: {gate.new} against {gate.live}\n\n{gate.line()}.\n\n{cells}\n"
