"""docs/commands.md says what the help says."""

from pathlib import Path

from arithmetext.cli import reference

PAGE = Path(__file__).parents[1] / "docs" / "commands.md"


def test_the_page_of_commands_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference.markdown(), (
        "write the page again: python -m arithmetext.cli.reference > docs/commands.md"
    )


def test_the_page_does_not_depend_on_the_terminal(monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("HOME", "/nowhere")
    assert reference.markdown() == PAGE.read_text(encoding="utf-8")
