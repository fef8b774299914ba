# The service in a container: an unprivileged user, a read-only root file system, production dependencies alone.

FROM node:24-bookworm-slim AS build
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY . .
RUN npm run build

FROM node:24-bookworm-slim AS dependencies
WORKDIR /app
COPY package.json package-lock.json ./
# No package that runs in production needs an install script: native ones bring their binaries.
RUN npm ci --omit=dev --ignore-scripts --no-audit --no-fund

FROM node:24-bookworm-slim
# In production a start without APP_SECRET, or without TLS and its alternatives, is refused (README, settings).
ENV NODE_ENV=production DATA_DIR=/data
WORKDIR /app
# Only what is written at run time belongs to the user that runs: the embedded database, where it is used.
RUN mkdir /data && chown node:node /data
VOLUME /data
COPY LICENSE ./
COPY --from=dependencies /app/node_modules node_modules
# package.json names the folders that `#imports` stand for; the migrations are applied at the start.
COPY package.json ./
COPY drizzle/migrations drizzle/migrations
COPY --from=build /app/dist dist
USER node
EXPOSE 3000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
  CMD ["node", "dist/src/healthcheck.js"]
# Not through npm, which would stand between the signals and the server; as `npm start` does it, with room for young
# objects, so that requests are over before the garbage collector looks at them a second time, and little for old ones.
CMD ["node", "--max-semi-space-size=32", "--heap-growing-percent=50", "dist/src/server.js"]
