# One image for each service, from one file. Build at the repository's root:
#
#   docker build --build-arg SERVICE=gateway -t antiphon-gateway .
#   docker build --build-arg SERVICE=talker -t antiphon-talker .
#   docker build --build-arg SERVICE=talker --build-arg ACCELERATOR=cuda -t antiphon-talker:cuda .
#   docker build --build-arg SERVICE=pair --build-arg ACCELERATOR=cuda -t antiphon-pair:cuda .
#   docker build --target voices -t antiphon-voices .
#
# `pair` is a talker and a vocoder in one process, for stages that share a GPU (decision 0040).
# The engines' images hold no weights: mount them at /app/voices, or copy them there from the
# voices image in an init container. SBOM and licences lie in /usr/share/antiphon.
#
# A private package index: --secret id=pip,src=pip.conf, and its certificate authority
# --secret id=ca,src=ca.pem with `cert = /run/secrets/ca` in pip.conf. Neither stays in the image.

ARG BASE=python:3.11.14-slim-bookworm@sha256:65a93d69fa75478d554f4ad27c85c1e69fa184956261b4301ebaf6dbb0a3543d

FROM ${BASE} AS base
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1

# What every package needs: their manifests alone, so that a change of code resolves nothing anew.
FROM base AS manifests
WORKDIR /src
COPY libs libs
COPY services services
COPY cli cli
RUN find . -type f ! -name pyproject.toml -delete

# What builds: an environment with pip for itself, and one without for the service. Arguments come
# after what does not depend on them, so that the services share it.
FROM base AS build
WORKDIR /src
RUN python3 -m venv /build && python3 -m venv --without-pip /opt/antiphon
COPY requirements-image.txt ./
RUN --mount=type=secret,id=pip,target=/etc/pip.conf --mount=type=secret,id=ca \
    --mount=type=cache,target=/root/.cache/pip \
    /build/bin/python -m pip install --quiet --require-hashes -r requirements-image.txt
ARG SERVICE
ARG ACCELERATOR=cpu
ARG TORCH_INDEX=""
COPY requirements.txt requirements-dev.txt requirements-torch.txt ./
COPY tools/__init__.py tools/torch_index.py tools/packages.py tools/needs.py tools/locked.py tools/
# Dependencies first: they change seldom, and torch is large. With what published checkpoints and
# recordings of voices need. All but torch, whose builds have one version and many indexes, are
# what the lock says by hash. The command line, which may know both stages, has the pair's program.
COPY --from=manifests /src ./
RUN --mount=type=secret,id=pip,target=/etc/pip.conf --mount=type=secret,id=ca \
    --mount=type=cache,target=/root/.cache/pip \
    set -eu; \
    case ${SERVICE} in \
      gateway) packages="services/gateway[voices,mark]";; \
      pair) packages="services/gateway[voices,mark,opus] services/talker[checkpoints] services/vocoder[checkpoints] cli";; \
      *) packages="services/${SERVICE}[checkpoints]";; \
    esac; \
    /build/bin/python -m tools.needs --own ${packages} | sed 's/^/.\//' > packages.txt; \
    /build/bin/python -m tools.needs ${packages} > needs.txt; \
    index=""; \
    if grep -q '^torch' needs.txt; then \
      index=$(/build/bin/python tools/torch_index.py --accelerator ${ACCELERATOR} --index "${TORCH_INDEX}"); \
    fi; \
    /build/bin/python tools/locked.py needs.txt ${index} > locked.txt; \
    pip="/build/bin/python -m pip --python /opt/antiphon/bin/python install --quiet"; \
    ${pip} --no-deps --require-hashes -r locked.txt; \
    if grep -q '^torch' needs.txt; then ${pip} ${index} -r requirements-torch.txt; fi
COPY libs libs
COPY services services
COPY cli cli
RUN /build/bin/python -m pip wheel --quiet --no-index --no-deps --no-build-isolation -w /wheels \
      $(cat packages.txt) \
 && /build/bin/python -m pip --python /opt/antiphon/bin/python install --quiet --no-index --no-deps \
      /wheels/*.whl \
 && /build/bin/python -m pip --python /opt/antiphon/bin/python check \
 && if grep -q '^numba' needs.txt; then \
      /opt/antiphon/bin/python -m ttscommon.engine.kernels.ahead; \
    fi

# What runs.
FROM base AS service
ARG SERVICE
ARG ACCELERATOR=cpu
# Triton compiles its launchers with a C compiler when a kernel is first used. Opus and AAC are Debian's.
RUN if [ "${SERVICE}" = gateway ]; then \
      apt-get update && apt-get install -y --no-install-recommends libopus0 libvo-aacenc0 \
      && rm -rf /var/lib/apt/lists/*; \
    fi \
 && if [ "${ACCELERATOR}" = cuda ] && [ "${SERVICE}" != gateway ]; then \
      apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev python3-dev \
      && rm -rf /var/lib/apt/lists/*; \
    fi \
 && useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin antiphon \
 && mkdir -p /app/voices /app/hub \
 && for user in broker setup backup gateway talker vocoder; do mkdir -p /run/antiphon/$user; done \
 && mkdir /backups && chown -R 10001:10001 /app/hub /run/antiphon /backups
COPY LICENSE NOTICE /usr/share/antiphon/
COPY --from=build /opt/antiphon /opt/antiphon
ENV PATH=/opt/antiphon/bin:$PATH \
    SERVICE=${SERVICE} \
    HOME=/tmp \
    HF_HOME=/app/hub \
    TRITON_CACHE_DIR=/tmp/triton \
    TORCHINDUCTOR_CACHE_DIR=/tmp/inductor \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    OMP_NUM_THREADS=1 \
    MKL_NUM_THREADS=1 \
    ANTIPHON_ADMIN_HOST=0.0.0.0 \
    ANTIPHON_ADMIN_PORT=9100

# What is in it. Fails on a licence that must not ship; two libraries under the LGPL may (decision
# 0030).
FROM build AS inventory
COPY --from=service / /image
RUN mkdir /inventory \
 && /build/bin/syft scan dir:/image --quiet -o cyclonedx-json=/inventory/sbom.cdx.json \
 && list="/build/bin/pip-licenses --python /opt/antiphon/bin/python --with-urls --order license" \
 && $list --partial-match --fail-on "GPL;General Public License" --ignore-packages lameenc soxr \
      > /dev/null \
 && $list --format plain --output-file /inventory/LICENSES.txt

FROM base AS voices
COPY voices /voices
USER 10001:10001
# Copies the weights to where an engine's volume is mounted.
CMD ["cp", "-r", "/voices/.", "/app/voices"]

FROM service
COPY --from=inventory /inventory /usr/share/antiphon
LABEL org.opencontainers.image.title="antiphon-${SERVICE}" \
      org.opencontainers.image.licenses="Apache-2.0"
WORKDIR /app
USER 10001:10001
EXPOSE 8000 9100
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=3s --start-period=120s --retries=3 \
  CMD ["python", "-m", "ttscommon.process.probe", "livez"]
ENTRYPOINT ["/bin/sh", "-c", "[ $SERVICE != pair ] || SERVICE=antiphon.pair; exec python -m $SERVICE"]
