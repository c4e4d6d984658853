# One file for all variants: docker build --build-arg VARIANT=cpu . (make image VARIANT=cpu adds labels; docs/images.md).
# containers/install.sh and uv.lock define what is installed; singularity.def uses them too.
ARG BASE=debian:bookworm-slim
# An image with the CUDA toolkit; only VARIANT=cuda needs one: nvidia/cuda:12.5.1-devel-ubuntu22.04.
ARG TOOLKIT=debian:bookworm-slim

FROM ${TOOLKIT} AS toolkit

FROM ${BASE} AS build
ARG VARIANT
COPY containers/install.sh /opt/kit/containers/
RUN /opt/kit/containers/install.sh compilers ${VARIANT}
COPY pyproject.toml uv.lock /opt/kit/
COPY requirements /opt/kit/requirements
# The cache mount keeps uv's downloads and builds for the next build on this machine.
RUN --mount=type=bind,from=toolkit,target=/toolkit --mount=type=cache,target=/opt/cache \
    XDG_CACHE_HOME=/opt/cache /opt/kit/containers/install.sh environment ${VARIANT}

FROM ${BASE}
ARG VARIANT
COPY containers/install.sh /opt/kit/containers/
COPY --from=build /opt/venv /opt/venv
RUN /opt/kit/containers/install.sh runtime ${VARIANT}
RUN useradd --create-home kit && install -d -m 1777 /work
COPY . /opt/kit
# The base image and the version of the code, which containers/build.py determines.
ARG VERSION=unknown
ARG COMMIT=
ARG BASE_NAME=unknown
ARG BASE_DIGEST=unknown
ARG SOURCE=
ARG CREATED=
LABEL org.opencontainers.image.title="Horovod scaling kit, ${VARIANT}" \
      org.opencontainers.image.description="TensorFlow, Horovod, MPI and a kit that measures how training scales" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${COMMIT}" \
      org.opencontainers.image.base.name="${BASE_NAME}" \
      org.opencontainers.image.base.digest="${BASE_DIGEST}"
RUN chmod -R a+rX /opt/kit && echo "Horovod scaling kit ${VERSION}, image ${VARIANT}, commit ${COMMIT}, on ${BASE_NAME} (${BASE_DIGEST})" \
      >/opt/kit/containers/built && echo "${COMMIT}" >/opt/kit/containers/commit
# There is no Keras 3: Horovod and tf.keras take tf_keras.
ENV TF_USE_LEGACY_KERAS=1
# Gloo crashes if a host cannot resolve its own name, as in a build with the host's network. The entry is not kept.
RUN { getent hosts "$(hostname)" >/dev/null || echo "127.0.0.1 $(hostname)" >>/etc/hosts; } \
    && /opt/kit/containers/check.sh ${VARIANT}
# The kit in the working folder takes precedence over the one in PYTHONPATH. Packages in a user's home are ignored.
# Horovod writes into HOME, which a user without an entry in /etc/passwd would have at /.
ENV PATH=/opt/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    PYTHONPATH=/opt/kit PYTHONNOUSERSITE=1 HOME=/tmp
USER kit
WORKDIR /work
# tini as the first process forwards signals to the ranks and reaps zombies.
ENTRYPOINT ["tini", "-s", "--"]
CMD ["/opt/kit/containers/help.sh"]
