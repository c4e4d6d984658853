# All variants: docker build --build-arg VARIANT=cpu . (make image VARIANT=cpu does it, with labels; docs/images.md).
# What is installed stands in containers/install.sh and requirements/, which singularity.def uses too.
ARG BASE=debian:bookworm-slim
# An image that has the CUDA toolkit; only cuda needs one, nvidia/cuda:12.5.1-devel-ubuntu22.04.
ARG TOOLKIT=debian:bookworm-slim

FROM ${TOOLKIT} AS toolkit

FROM ${BASE} AS build
ARG VARIANT
COPY containers/install.sh /opt/kit/containers/
RUN /opt/kit/containers/install.sh compilers ${VARIANT}
COPY requirements/install.py requirements/build.txt requirements/cpu.txt requirements/cuda.txt requirements/horovod.txt \
    requirements/mpich.txt /opt/kit/requirements/
RUN --mount=type=bind,from=toolkit,target=/toolkit /opt/kit/containers/install.sh environment ${VARIANT}

FROM ${BASE}
ARG VARIANT
COPY containers/install.sh /opt/kit/containers/
COPY --from=build /opt/venv /opt/venv
RUN /opt/kit/containers/install.sh runtime ${VARIANT}
RUN useradd --create-home kit && install -d -m 1777 /work
COPY . /opt/kit
# The base as it really was, and the code: containers/build.py finds them out.
ARG VERSION=unknown
ARG COMMIT=
ARG BASE_NAME=unknown
ARG BASE_DIGEST=unknown
LABEL org.opencontainers.image.title="Horovod scaling kit, ${VARIANT}" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${COMMIT}" \
      org.opencontainers.image.base.name="${BASE_NAME}" \
      org.opencontainers.image.base.digest="${BASE_DIGEST}"
RUN chmod -R a+rX /opt/kit && echo "Horovod scaling kit ${VERSION}, image ${VARIANT}, commit ${COMMIT}, on ${BASE_NAME} (${BASE_DIGEST})" \
      >/opt/kit/containers/built && echo "${COMMIT}" >/opt/kit/containers/commit
# Gloo crashes where a host does not know its own name, as in a build with the host's network. This line is not kept.
RUN { getent hosts "$(hostname)" >/dev/null || echo "127.0.0.1 $(hostname)" >>/etc/hosts; } \
    && /opt/kit/containers/check.sh ${VARIANT}
# PYTHONPATH: the kit in the working folder comes before the image's own. No packages of a user's home.
ENV PATH=/opt/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    PYTHONPATH=/opt/kit PYTHONNOUSERSITE=1
USER kit
WORKDIR /work
# tini as the first process: signals reach the ranks, and none of them becomes a zombie.
ENTRYPOINT ["tini", "-s", "--"]
CMD ["/opt/kit/containers/help.sh"]
