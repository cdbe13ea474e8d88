# syntax=docker/dockerfile:1

FROM python:3.11-slim-bookworm AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY scheduler ./scheduler
COPY api ./api
COPY client ./client
RUN pip wheel --wheel-dir /wheels -c constraints.txt .

FROM python:3.11-slim-bookworm
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PYTHONUNBUFFERED=1
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-index --find-links /wheels /wheels/podyard-*.whl \
    && useradd --system --uid 10001 --home-dir /var/lib/podyard --create-home podyard
USER 10001
WORKDIR /var/lib/podyard
VOLUME /var/lib/podyard
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/healthz', timeout=2)"]
ENTRYPOINT ["podyard"]
# Without tokens the service refuses to listen beyond loopback. Whoever runs the image where nobody
# else can reach it says so with --insecure, as docker-compose.yml does.
CMD ["serve", "--host", "0.0.0.0", "--port", "8080", "--database-url", "sqlite:////var/lib/podyard/podyard.db"]
