#!/bin/sh
# Make a folder of unpacked Debian packages the root of an image: what Python needs, a user, certificates.
# usage: trim.sh ROOT     (mmdebstrap calls it)
set -eu
root=$1

# Which packages are in it, for scanners.
: > "$root/var/lib/dpkg/status"
for package in "$root"/var/cache/apt/archives/*.deb; do
    dpkg-deb --field "$package" | sed '1a Status: install ok installed' >> "$root/var/lib/dpkg/status"
    echo >> "$root/var/lib/dpkg/status"
done

cat "$root"/usr/share/ca-certificates/mozilla/*.crt > "$root/etc/ssl/certs/ca-certificates.crt"
for folder in bin sbin usr/bin usr/sbin; do
    find "$root/$folder" -mindepth 1 ! -name 'python3*' -delete
done
find "$root/usr/share/doc" -type f ! -name copyright -delete
find "$root/usr/share/doc" -type d -empty -delete
for folder in man locale info perl5 lintian bug doc-base debconf dpkg bash-completion pixmaps menu; do
    rm -rf "$root/usr/share/$folder"
done
rm -rf "$root"/usr/lib/*/perl-base "$root"/usr/lib/*/gconv "$root"/usr/lib/*/audit \
    "$root"/usr/lib/apt "$root"/usr/lib/dpkg \
    "$root"/usr/lib/systemd "$root"/lib/systemd "$root"/boot "$root"/srv "$root"/media "$root"/mnt

echo 'root:x:0:0:root:/root:/sbin/nologin
nonroot:x:65532:65532:nonroot:/tmp:/sbin/nologin' > "$root/etc/passwd"
echo 'root:x:0:
nonroot:x:65532:' > "$root/etc/group"
echo 'hosts: files dns' > "$root/etc/nsswitch.conf"
mkdir -p "$root/proc" "$root/sys" "$root/dev" "$root/run" "$root/tmp" "$root/data" "$root/etc/kreach"
chmod 1777 "$root/tmp"
chown 65532:65532 "$root/data"
