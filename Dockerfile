# The live service with the bundled model: docker build -t bethink . && docker run -p 8080:8080 bethink
FROM python:3.12-slim AS build
WORKDIR /source
COPY . .
RUN python -m venv /opt/bethink \
    && /opt/bethink/bin/pip install --no-cache-dir --disable-pip-version-check -c constraints.txt '.[serve]'

FROM python:3.12-slim
RUN useradd --system --create-home --uid 10001 bethink
COPY --from=build /opt/bethink /opt/bethink
USER 10001
WORKDIR /home/bethink
ENV PATH=/opt/bethink/bin:$PATH OMP_NUM_THREADS=1 PYTHONUNBUFFERED=1
EXPOSE 8080
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/health', timeout=8)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["bethink", "serve", "--host", "0.0.0.0"]
CMD ["--threads", "1"]
