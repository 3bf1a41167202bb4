# The first process of a machine: makes its root, moves into it and keeps its services running.
# Called in new mount, process, host name, IPC and cgroup namespaces: start.sh FOLDER NAME ADDRESS KUBERNETES CONTAINERD
set -e
folder=$1 name=$2 address=$3 kubernetes=$4 containerd=$5
root=$folder/root
# The network outlives the machine. What an earlier life left there is on no machine that starts, and kube-proxy leaves
# Services out when it finds half of its rules.
nft list tables | while read -r table; do
  # shellcheck disable=SC2086 # several words
  nft delete $table
done
! ip link show cni0 >/dev/null 2>&1 || ip link delete cni0
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t overlay overlay -o "lowerdir=/usr,upperdir=$folder/usr,workdir=$folder/usr.work" "$root/usr"
mount --bind -o ro "$kubernetes" "$root/opt/kubernetes"
mount --bind -o ro "$containerd" "$root/opt/containerd"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"

# The cgroup namespace makes the machine's own cgroup the top, so nobody has to know where that is.
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
  mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
else
  mount -t tmpfs -o mode=755 tmpfs "$root/sys/fs/cgroup"
  # Read first: what is mounted here would be found again.
  cat /proc/self/mountinfo >"$root/sys/fs/cgroup/table"
  while read -r _ _ _ _ _ _ rest; do
    case " $rest" in *" - cgroup cgroup "*) ;; *) continue ;; esac
    options=${rest##* } wanted=
    for word in $(echo "$options" | tr , ' '); do
      case $word in rw | ro | relatime | xattr | clone_children | release_agent=*) ;; name=*) wanted=none,$word ;; *) wanted=$wanted${wanted:+,}$word ;; esac
    done
    mkdir -p "$root/sys/fs/cgroup/${wanted##*name=}"
    mount -t cgroup -o "$wanted" cgroup "$root/sys/fs/cgroup/${wanted##*name=}"
  done <"$root/sys/fs/cgroup/table"
  rm "$root/sys/fs/cgroup/table"
fi

mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
mkdir "$root/dev/pts" "$root/dev/shm" "$root/dev/mqueue"
for device in null zero full random urandom tty kmsg fuse; do
  [ -e "/dev/$device" ] || continue
  : >"$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
mount -t tmpfs tmpfs "$root/dev/shm"
mount -t mqueue mqueue "$root/dev/mqueue"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
for number in 0 1 2; do
  case $number in 0) word=stdin ;; 1) word=stdout ;; 2) word=stderr ;; esac
  ln -s "fd/$number" "$root/dev/$word"
done

# Settings of the whole host that a kubelet would write: it finds what it wants and leaves them alone.
for pair in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1; do
  file=$root/run/settings/${pair%%=*}
  mkdir -p "${file%/*}"
  echo "${pair#*=}" >"$file"
  mount --bind "$file" "$root/proc/sys/${pair%%=*}"
done
[ ! -e /sys/class/dmi/id/product_uuid ] || mount --bind "$folder/product_uuid" "$root/sys/class/dmi/id/product_uuid"

cd "$root"
mkdir -p .old
pivot_root . .old
umount -l /.old
rmdir /.old
mount --make-rshared /
hostname "$name"
export PATH=/opt/kubernetes:/opt/containerd:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
set +e

# Runs a service again whenever it ends.
keep() {
  service=$1
  shift
  while :; do
    "$@" >>"/var/log/$service.log" 2>&1
    echo "$service ended with $?" >>"/var/log/$service.log"
    sleep 1
  done
}

# kubeadm writes what the kubelet needs and asks nobody to start it.
run_kubelet() {
  until [ -f /var/lib/kubelet/config.yaml ] && { [ -f /etc/kubernetes/bootstrap-kubelet.conf ] || [ -f /etc/kubernetes/kubelet.conf ]; }; do
    sleep 0.1
  done
  KUBELET_KUBEADM_ARGS=
  [ ! -f /var/lib/kubelet/kubeadm-flags.env ] || . /var/lib/kubelet/kubeadm-flags.env
  # shellcheck disable=SC2086 # several arguments
  exec kubelet --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf \
    --config=/var/lib/kubelet/config.yaml --node-ip="$address" $KUBELET_KUBEADM_ARGS
}

kubelet_once() { (run_kubelet); }
keep containerd containerd &
keep kubelet kubelet_once &
while :; do wait; sleep 1; done
