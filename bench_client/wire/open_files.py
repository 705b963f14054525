"""The limit on open files, which every connection counts against."""

import resource

# What a process holds open beside its connections, generously.
OTHERS = 64


def allow(connections: int) -> None:
    """Raise this process's own limit as far as it may be.

    Raises:
        OSError: even so there is no room for so many connections.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard != resource.RLIM_INFINITY and connections + OTHERS > hard:
        message = (
            f"{connections} connections are more than the limit of {hard} open files allows: "
            "raise it (ulimit -Hn), or share them out (--workers)"
        )
        raise OSError(message)
