fn main() {
    let out = std::path::PathBuf::from(std::env::args().nth(1).expect("OUTDIR"));
    std::fs::create_dir_all(&out).expect("mkdir");
    for crd in butler_api::crd::all() {
        let name = crd.metadata.name.clone().expect("name");
        let json = serde_json::to_string_pretty(&crd).expect("json");
        std::fs::write(out.join(format!("{name}.json")), json).expect("write");
    }
}
