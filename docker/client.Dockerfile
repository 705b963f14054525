# The client alone, to measure servers that run elsewhere (--url). From the root of the clone:
#   docker build --file docker/client.Dockerfile --tag bench-client .
FROM python:3.11.14-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY bench_client bench_client
COPY server_launchers server_launchers
COPY scenarios scenarios
RUN python -m venv /opt/bench-client \
    && /opt/bench-client/bin/pip install --no-cache-dir --constraint constraints.txt '.[openai]'

FROM python:3.11.14-slim-bookworm
RUN useradd --uid 1000 --create-home bench \
    && install --directory --owner bench /work /work/results
COPY --from=build /opt/bench-client /opt/bench-client
# HOME is set for `docker run --user`, whose user may be unknown here.
ENV PATH=/opt/bench-client/bin:$PATH HOME=/home/bench PYTHONUNBUFFERED=1
USER 1000
WORKDIR /work
ENTRYPOINT ["bench-client"]
CMD ["--help"]
