# Neither transformers' server nor EAGLE's code has an official image: PyTorch's with pinned
# packages, one target for each. Both share one PyTorch, so that the two arms differ in nothing else.
ARG TORCH_IMAGE=pytorch/pytorch:2.13.0-cuda13.0-cudnn9-runtime

FROM ${TORCH_IMAGE} AS transformers
ENV PIP_BREAK_SYSTEM_PACKAGES=1 PYTHONUNBUFFERED=1
RUN pip install --no-cache-dir 'transformers[serving]==5.19.0' accelerate==1.15.0

FROM ${TORCH_IMAGE} AS eagle
# EAGLE's code runs with transformers 4.53 to 4.57.
ENV PIP_BREAK_SYSTEM_PACKAGES=1 PYTHONUNBUFFERED=1 PYTHONPATH=/opt/bench-client:/opt/EAGLE
RUN pip install --no-cache-dir transformers==4.53.3 accelerate==1.15.0
# git, for the server to tell EAGLE's commit.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --no-install-recommends --yes git \
    && rm -rf /var/lib/apt/lists/*
ADD --keep-git-dir=true https://github.com/SafeAILab/EAGLE.git#cb7e0841fe0c206c6ed74a197ad5e2a1f13f5a2b /opt/EAGLE
COPY server_launchers /opt/bench-client/server_launchers
