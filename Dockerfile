# The image of genericdp: docker build --build-arg VERSION=0.1.0 -t genericdp:0.1.0 .
#
# BASE_IMAGE may be any Debian or Ubuntu with Python 3.11 or newer, its venv module and libudev1.
# Behind a proxy that signs with its own CA, or with a package index of your own, add
# --secret id=ca,src=ca-certificates.crt or --secret id=pip.conf,src=pip.conf.
ARG BASE_IMAGE=python:3.13-slim

FROM ${BASE_IMAGE} AS build
WORKDIR /src
# The second environment is what is shipped; the first has the pip that fills it.
RUN python3 -m venv /build && python3 -m venv --without-pip /opt/genericdp
COPY requirements/runtime.txt requirements/build.txt requirements/
RUN --mount=type=secret,id=pip.conf --mount=type=secret,id=ca \
    export PIP_CONFIG_FILE=/run/secrets/pip.conf PIP_DISABLE_PIP_VERSION_CHECK=1 && \
    if [ -e /run/secrets/ca ]; then export PIP_CERT=/run/secrets/ca; fi && \
    /build/bin/pip install -q --require-hashes --only-binary=:all: -r requirements/build.txt && \
    /build/bin/pip --python /opt/genericdp install -q --no-compile --require-hashes --only-binary=:all: -r requirements/runtime.txt
COPY pyproject.toml README.md LICENSE ./
COPY examples examples
COPY schemas schemas
COPY tools/package_urls.py tools/
COPY genericdp genericdp
# Compiled now, since a read-only root cannot keep what Python compiles.
RUN /build/bin/pip wheel -q --no-deps --no-build-isolation -w /build . && \
    /build/bin/pip --python /opt/genericdp install -q --no-compile --no-deps --no-index /build/*.whl && \
    /opt/genericdp/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/genericdp/lib

FROM ${BASE_IMAGE}
# pyudev finds libudev through ldconfig. Python's official images have no compiled library.
RUN ldconfig -p | grep -q 'libudev\.so\.1' || { echo "BASE_IMAGE lacks libudev1" >&2; exit 1; } && \
    rm -rf /usr/local/bin/pip* /usr/local/lib/python3*/site-packages/pip* /usr/local/lib/python3*/ensurepip \
           /usr/lib/python3*/ensurepip /usr/lib/python3/dist-packages/pip* /usr/share/python-wheels && \
    python3 -m compileall -q --invalidation-mode unchecked-hash -x 'idlelib|pydoc|test|tkinter|turtle' \
           "$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')"
COPY --from=build /opt/genericdp /opt/genericdp
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="genericdp" \
      org.opencontainers.image.description="A Kubernetes device plugin for any hardware, driven by a YAML file" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# One malloc arena: with several, memory freed by one thread cannot be used by another.
ENV PATH=/opt/genericdp/bin:$PATH MALLOC_ARENA_MAX=1
# Root owns the kubelet's sockets and the device nodes. No capability is needed.
USER 0:0
ENTRYPOINT ["genericdp"]
CMD ["run", "--config=/etc/genericdp"]
