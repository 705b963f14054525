"""`python -m bench_client` is the console script."""

from bench_client.cli import main

main()
