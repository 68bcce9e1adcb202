"""The command line's page: every command, argument and option, from the program itself."""

import typer

MARK = "<!-- commands -->"


def filled(markdown):
    """The page, with the commands of the installed program in the place of `MARK`."""
    if markdown.count(MARK) != 1:
        raise ValueError(f"docs/cli.md must have one line {MARK}")
    return markdown.replace(MARK, commands())


def commands():
    """Every command as Markdown, in the order in which `noregret --help` lists them."""
    from noregret.cli import app

    return "\n\n".join(_sections("noregret", typer.main.get_command(app)))


def _sections(name, command):
    inner = getattr(command, "commands", {})
    if not inner:
        yield _section(name, command)
    for key, value in inner.items():
        yield from _sections(f"{name} {key}", value)


def _section(name, command):
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and not p.hidden]
    first, *rest = (command.help or "").strip().split("\n\n")
    example = []
    for i, text in enumerate(rest):  # "Example: noregret ..." at the end of a paragraph
        before, found, after = text.partition("Example: ")
        if found:
            rest[i], example = before.strip(), [after.strip()]
    usage = " ".join([name, *(p.name.upper() for p in arguments), "[OPTIONS]"])
    made = [f"## {name}", _prose(first), "\n".join(["```text", usage, *example, "```"])]
    made += [_prose(text) for text in rest if text]
    made += [_entry(p.name.upper(), p) for p in arguments] + [_entry(", ".join(_flags(p)), p) for p in options]
    return "\n\n".join(made)


def _flags(option):
    return [*option.opts, *option.secondary_opts]


def _entry(name, parameter):
    said = _prose(parameter.help or "")
    shown = _default(parameter)
    if parameter.required:
        said += " (required)"
    elif shown:
        said += f" (default {shown})"
    return ", ".join(f"`{part}`" for part in name.split(", ")) + f"\n:   {said}"


def _default(parameter):
    """As the help shows it; nothing for flags that are off and for empty texts."""
    if isinstance(parameter.show_default, str):
        return _prose(parameter.show_default)
    if not parameter.show_default or parameter.default in (None, "", False):
        return ""
    if parameter.default is True:
        return f"`{parameter.opts[0]}`"
    return ", ".join(f"`{part}`" for part in str(parameter.default).split(","))


def _prose(text):
    return " ".join(text.split()).replace("_", r"\_").replace("*", r"\*").replace("<", "&lt;")
