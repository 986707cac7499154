# For a machine without Lustre's own tools: `lnetctl`, `lctl`, `lst` and `lfs` are those of Fulmar, with their manual
# pages and completion. Read by a shell, or for all users by a link /etc/profile.d/fulmar.sh.
PATH=/usr/lib/fulmar/bin:$PATH
XDG_DATA_DIRS=/usr/lib/fulmar/share:${XDG_DATA_DIRS:-/usr/local/share:/usr/share}
export PATH XDG_DATA_DIRS
if [ -n "${ZSH_VERSION:-}" ]; then
    FPATH=/usr/lib/fulmar/share/zsh/site-functions:$FPATH
fi
