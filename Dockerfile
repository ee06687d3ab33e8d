# Two images:
#   docker build --target exporter --tag asyncrl-exporter .     # neither torch nor ray
#   docker build --target runtime --tag asyncrl-runtime .       # `asyncrl run`, and the nodes of a Ray cluster
# A CPU build of torch for the second: --build-arg EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu

FROM debian:12-slim AS python
# Debian's python3 comes without pip and without a compiler, so the images have neither.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends ca-certificates python3 \
 && rm -rf /var/lib/apt/lists/*

FROM python AS build
RUN apt-get update \
 && apt-get install --yes --no-install-recommends python3-venv \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY constraints.txt ./
# This environment builds and installs. It has pip; the ones that it fills, which are copied, have not.
RUN --mount=type=cache,target=/root/.cache/pip \
    python3 -m venv /opt/build \
 && /opt/build/bin/pip install --constraint constraints.txt build hatchling
COPY pyproject.toml README.md LICENSE asyncrl.py ./
COPY runtime/ runtime/
COPY exporter/ exporter/
COPY dashboards/ dashboards/
RUN /opt/build/bin/python -m build --wheel --no-isolation --outdir /dist

FROM build AS exporter-venv
RUN --mount=type=cache,target=/root/.cache/pip \
    python3 -m venv --without-pip /opt/asyncrl \
 && /opt/build/bin/pip --python /opt/asyncrl/bin/python install --constraint constraints.txt /dist/*.whl

FROM build AS runtime-venv
ARG EXTRA_INDEX_URL=
RUN --mount=type=cache,target=/root/.cache/pip \
    python3 -m venv --without-pip /opt/asyncrl \
 && wheel=$(echo /dist/*.whl) \
 && PIP_EXTRA_INDEX_URL=${EXTRA_INDEX_URL} \
    /opt/build/bin/pip --python /opt/asyncrl/bin/python install --constraint constraints.txt "${wheel}[cluster]"

FROM python AS exporter
LABEL org.opencontainers.image.title="asyncrl-exporter" \
      org.opencontainers.image.description="Exact metrics per parameter version of asynchronous RL training" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=exporter-venv /opt/asyncrl /opt/asyncrl
RUN mkdir /data && chown 65532:65532 /data
ENV PATH=/opt/asyncrl/bin:$PATH PYTHONUNBUFFERED=1
# A number, so that Kubernetes can see that it is not root.
USER 65532:65532
WORKDIR /data
EXPOSE 9810 4318
# Kubernetes has probes of its own. With TLS on the listener, give docker run another --health-cmd.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD \
    ["python3", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:9810/readyz', timeout=3)"]
ENTRYPOINT ["asyncrl"]
# Open to other machines it starts with --web-config and --otlp-web-config, or with --insecure, and not without.
CMD ["exporter", "--listen", "0.0.0.0:9810", "--otlp", "0.0.0.0:4318", "--data-dir", "/data"]

FROM python AS runtime
LABEL org.opencontainers.image.title="asyncrl-runtime" \
      org.opencontainers.image.description="Asynchronous GRPO on Ray and PyTorch, with exact metrics per version" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=runtime-venv /opt/asyncrl /opt/asyncrl
RUN mkdir /runs && chown 65532:65532 /runs
# No account has this number: caches go to /tmp, and who asks for a name finds one.
ENV PATH=/opt/asyncrl/bin:$PATH PYTHONUNBUFFERED=1 HOME=/tmp USER=asyncrl
USER 65532:65532
WORKDIR /runs
# A run has a watchdog, which ends it: no check from outside may depend on its progress.
HEALTHCHECK NONE
CMD ["asyncrl", "run", "--set", "runs_dir=/runs"]
