#!/bin/sh
# Install kreach with its locked dependencies into a virtual environment for Debian's Python 3.11.
# usage: install.sh UV SOURCE PREFIX [EXTRA...]
# Nothing of the prefix runs while it is made, so the machine that makes it may have another Python.
# Both builds use this script: ./build and the Containerfile.
set -eu
uv=$1 source=$2 prefix=$3
shift 3
[ $# -gt 0 ] || set -- console dp kafka nats object-store otel redis
extras=""
for extra in "$@"; do extras="$extras --extra $extra"; done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
site="$prefix/lib/python3.11/site-packages"

# shellcheck disable=SC2086  # one word for each option
"$uv" export --quiet --frozen --no-dev --no-emit-project $extras --project "$source" \
    --output-file "$work/requirements.txt" > /dev/null
"$uv" build --quiet --wheel --out-dir "$work/wheel" "$source"
mkdir -p "$site" "$prefix/bin"
# nkeys, of the extra nats, has no wheel: it is plain Python, built here. Everything else must have one.
awk -v work="$work" 'NR == 1 || /^[a-z]/ { out = work (/^nkeys==/ ? "/sources.txt" : "/wheels.txt") } { print > out }' \
    "$work/requirements.txt"
set -- "--only-binary :all: --require-hashes --requirements $work/wheels.txt" \
    "--only-binary :all: --no-deps $work/wheel/kreach-*.whl"
[ ! -e "$work/sources.txt" ] || set -- "$@" "--no-deps --require-hashes --requirements $work/sources.txt"
for what in "$@"; do
    # shellcheck disable=SC2086
    "$uv" pip install --quiet --no-config --link-mode copy \
        --python-version 3.11 --python-platform "$(uname -m)-manylinux_2_36" --target "$site" $what
done

# The command, and what makes the folder a virtual environment. --target puts scripts beside modules.
rm -rf "$site/bin"
printf 'home = /usr/bin\ninclude-system-site-packages = false\nversion = 3.11\n' > "$prefix/pyvenv.cfg"
ln -sf /usr/bin/python3 "$prefix/bin/python"
printf '#!%s/bin/python -I\nfrom kreach.cli import main\n\nmain()\n' /opt/kreach > "$prefix/bin/kreach"
chmod 0755 "$prefix/bin/kreach"

# Neither tests nor sources of libraries in C are needed to run, nor the symbols of compiled ones.
find "$site" -type f -name '*.so*' ! -path '*.libs/*' -exec strip --strip-unneeded {} +
for library in ibis numpy scipy; do
    find "$site/$library" -type d -name tests -prune -exec rm -rf {} +
done
find "$site" -type f \( -name '*.pyx' -o -name '*.pxd' -o -name '*.pyi' -o -name '*.h' -o -name '*.a' \) -delete
