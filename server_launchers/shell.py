"""A command as a line for a shell, without its secrets."""

import re
import shlex

from .settings import LaunchCommand

SECRET_FLAG = re.compile(r"--.*(api[-_]key|hf[-_]token|secret|password)$")
SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)$")


def redacted(argv: tuple[str, ...]) -> tuple[str, ...]:
    """`argv` with the value of each flag that names a secret replaced by `***`."""
    shown: list[str] = []
    for word in argv:
        flag, equals, _ = word.partition("=")
        if shown and SECRET_FLAG.match(shown[-1]):
            shown.append("***")
        elif equals and SECRET_FLAG.match(flag):
            shown.append(f"{flag}=***")
        else:
            shown.append(word)
    return tuple(shown)


def shell_line(command: LaunchCommand) -> str:
    """One line that starts the same server by hand: additions to the environment, then the argv.

    A secret in the environment is left to the shell (`HF_TOKEN="$HF_TOKEN"`).
    """
    env = [
        f'{name}="${name}"' if SECRET_NAME.search(name) else f"{name}={shlex.quote(value)}"
        for name, value in sorted(command.env.items())
    ]
    return " ".join([*env, shlex.join(redacted(command.argv))])
