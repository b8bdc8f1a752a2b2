# The service. `make image` builds it and passes the arguments below.
ARG PYTHON_IMAGE=python:3.13-slim

FROM ${PYTHON_IMAGE} AS wheel
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY requirements-build.lock ./
RUN ["pip", "install", "--no-deps", "--require-hashes", "--only-binary", ":all:", "--requirement", "requirements-build.lock"]
COPY pyproject.toml README.md LICENSE ./
COPY service service
RUN ["pip", "wheel", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", "/wheel", "."]

# What the service needs, checked by hash, from wheels alone: an archive of sources would run code while it is built.
FROM ${PYTHON_IMAGE} AS dependencies
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
COPY requirements-runtime.lock /
RUN python -m venv --without-pip /opt/dryserve \
    && pip --python /opt/dryserve/bin/python install --no-compile --no-deps --require-hashes --only-binary :all: \
        --requirement /requirements-runtime.lock \
    && /opt/dryserve/bin/python -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/dryserve/lib

# The service's own code, apart from its dependencies, so that a change of a line makes a small layer.
FROM dependencies AS code
COPY --from=wheel /wheel /wheel
RUN pip --python /opt/dryserve/bin/python install --no-compile --no-index --no-deps --target /opt/app /wheel/*.whl \
    && /opt/dryserve/bin/python -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/app \
    && PYTHONPATH=/opt/app /opt/dryserve/bin/python -m service.bundled_toml \
    && PYTHONPATH=/opt/app /opt/dryserve/bin/python -m service.generated_methods
COPY deploy/image/healthcheck.py /opt/app/

FROM ${PYTHON_IMAGE}
# The slim image has no compiled standard library, and the service's user could not store it.
RUN python -m compileall -q -j 0 --invalidation-mode unchecked-hash \
        -x '/(site-packages|test|tests|idlelib|turtledemo|lib2to3|ensurepip)/' \
        "$(python -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')" \
    && groupadd --gid 10001 dryserve \
    && useradd --uid 10001 --gid 10001 --no-create-home --no-log-init --shell /usr/sbin/nologin dryserve \
    # Group 0 may write too: OpenShift runs containers under a random user of that group.
    && install --directory --owner 10001 --group 0 --mode 770 /var/lib/dryserve
COPY --from=dependencies /opt/dryserve /opt/dryserve
COPY --from=code /opt/app /opt/app
ENV PATH="/opt/app/bin:/opt/dryserve/bin:$PATH" \
    PYTHONPATH=/opt/app \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    DRYSERVE_HOST=0.0.0.0 \
    DRYSERVE_PORT=8000 \
    DRYSERVE_CACHE=/var/lib/dryserve/hub.sqlite3 \
    DRYSERVE_DATABASE_URL=sqlite:////var/lib/dryserve/dryserve.db
# What the Hub answered and what probes measured is kept here; mount a volume to keep it longer than the container.
VOLUME /var/lib/dryserve
USER 10001:10001
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s --retries=3 \
    CMD ["python", "-E", "-S", "/opt/app/healthcheck.py"]
ENTRYPOINT ["dryserve"]
CMD ["serve"]
ARG VERSION=unknown
ARG REVISION=unknown
ARG CREATED=1970-01-01T00:00:00Z
ARG SOURCE=unknown
LABEL org.opencontainers.image.title="dryserve" \
      org.opencontainers.image.description="Dry-run vllm serve: what the engine would do on each GPU type, without a GPU" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.source="${SOURCE}"
