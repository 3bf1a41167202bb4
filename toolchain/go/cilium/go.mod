module butler.invalid/toolchain/cilium

go 1.26.4

require github.com/cilium/cilium v1.20.2
