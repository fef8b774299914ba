# Builds the image of the service: an unprivileged user, production dependencies only, fit for a read-only root file system.

# By digest, so that a build is repeatable; Dependabot proposes newer ones. This is Node.js 24.18.0.
FROM node:24-bookworm-slim@sha256:6f7b03f7c2c8e2e784dcf9295400527b9b1270fd37b7e9a7285cf83b6951452d AS node

# The package.json files alone, so that a change of the sources installs nothing again.
FROM node AS manifests
WORKDIR /app
COPY packages packages
RUN find packages -type f ! -name package.json -delete

FROM node AS build
WORKDIR /app
COPY package.json package-lock.json ./
COPY --from=manifests /app/packages packages
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY . .
# A server loads nothing of what makes and tests applications.
RUN npm run build && rm -r packages/*/src packages/*/tsconfig.json packages/create packages/testing

FROM node AS dependencies
WORKDIR /app
COPY package.json package-lock.json ./
COPY --from=manifests /app/packages packages
# No production dependency needs an install script: native packages contain their binaries. The application and what it
# imports, without the packages that make and test applications; npm links none of its packages unless one is named.
RUN npm ci --omit=dev --include-workspace-root --workspace=packages/docs --ignore-scripts --no-audit --no-fund
# PGlite, OpenTelemetry and the MCP library are installed: 13 of 182 packages, 59 of 151 MB. Without those that the settings
# do not need: --build-arg OMIT='@electric-sql/pglite @opentelemetry/core'. The start says which ones it needs.
ARG OMIT=
# From the installed packages. With the development dependencies in package.json, `npm sbom` fails because they are not
# installed, also with --omit=dev. With --package-lock-only it lists packages of other platforms, and omits uuid and zod.
RUN npm pkg delete devDependencies workspaces \
  && { test -z "$OMIT" || npm uninstall --ignore-scripts --no-audit --no-fund $OMIT; } \
  && npm sbom --sbom-format=cyclonedx --sbom-type=application > sbom.cdx.json

FROM node
# https://github.com/opencontainers/image-spec/blob/main/annotations.md; the build of a release sets the three arguments.
ARG VERSION=0.1.0
ARG REVISION=unknown
ARG CREATED=unknown
LABEL org.opencontainers.image.title="resource-api" \
  org.opencontainers.image.description="A resource-oriented HTTP JSON API in front of PostgreSQL" \
  org.opencontainers.image.licenses="MIT" \
  org.opencontainers.image.version="$VERSION" \
  org.opencontainers.image.revision="$REVISION" \
  org.opencontainers.image.created="$CREATED" \
  org.opencontainers.image.base.name="docker.io/library/node:24-bookworm-slim"
# With NODE_ENV=production, the service does not start without APP_SECRET or without TLS or its alternatives
# (docs/operators/settings.md).
ENV NODE_ENV=production DATA_DIR=/data
WORKDIR /app
# The unprivileged user owns only the folder that is written at run time: that of the embedded database
# and of large imports.
RUN mkdir /data && chown node:node /data
VOLUME /data
COPY LICENSE ./
COPY --from=dependencies /app/node_modules node_modules
# The software bill of materials (CycloneDX) of what the image runs.
COPY --from=dependencies /app/sbom.cdx.json ./
# The migrations are found from package.json, and applied at the start.
COPY package.json ./
COPY drizzle/migrations drizzle/migrations
COPY templates templates
COPY --from=build /app/packages packages
COPY --from=build /app/dist dist
USER node
EXPOSE 3000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
  CMD ["node", "dist/src/server.js", "--health"]
# Not through npm, which would receive the signals instead of the server. The flags are those of `npm start`: a large
# young generation, and no allocation of the objects of requests in the old one.
CMD ["node", "--max-semi-space-size=32", "--no-allocation-site-pretenuring", "dist/src/server.js"]
