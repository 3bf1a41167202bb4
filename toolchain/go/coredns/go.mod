module butler.invalid/toolchain/coredns

go 1.25.0

require github.com/coredns/coredns v1.14.7
