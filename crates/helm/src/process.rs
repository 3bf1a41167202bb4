//! One process of Helm: an environment of its own, secrets only by its standard input and files of mode 0600.

use std::{
    ffi::OsString,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use butler_addons::{failure::Class, output};
use tempfile::{NamedTempFile, TempDir};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    process::{Child, Command},
    time::timeout,
};

use crate::StepError;

/// The most that is kept of what a process says: a chart with a thousand notes must not fill the memory.
const MOST_OUTPUT: u64 = 256 * 1024;

/// A folder that can never be made.
const NOWHERE: &str = "/dev/null/none";
/// The most that an answer may have.
const MOST_ANSWER: u64 = 64 << 20;

/// The program, and a folder that is ours alone.
#[derive(Clone, Debug)]
pub struct Helm {
    program: PathBuf,
    folder: PathBuf,
}

/// What to run.
#[derive(Default)]
pub struct Call {
    /// Arguments; nothing secret is among them.
    pub arguments: Vec<OsString>,
    /// What it reads: values.
    pub input: Vec<u8>,
    /// Further settings, such as where credentials of a registry are.
    pub environment: Vec<(&'static str, PathBuf)>,
    /// Texts that must not be seen in what it says.
    pub secrets: Vec<String>,
    /// Whether what it prints belongs to what it says: some commands give their reasons there.
    pub prints_reasons: bool,
}

impl Call {
    /// A call with these arguments.
    pub fn new<const N: usize>(arguments: [&str; N]) -> Self {
        Self {
            arguments: arguments.iter().map(OsString::from).collect(),
            ..Self::default()
        }
    }

    /// One more argument.
    pub fn arg(&mut self, argument: impl Into<OsString>) -> &mut Self {
        self.arguments.push(argument.into());
        self
    }
}

impl Helm {
    /// Helm with its files below `folder`.
    pub fn new(program: PathBuf, folder: PathBuf) -> io::Result<Self> {
        std::fs::create_dir_all(folder.join("home"))?;
        std::fs::create_dir_all(folder.join("private"))?;
        Ok(Self { program, folder })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A folder for one call, which goes with it.
    pub fn scratch(&self) -> io::Result<TempDir> {
        tempfile::tempdir_in(self.folder.join("private"))
    }

    /// A file that only we can read, which goes when this is dropped.
    pub fn private_file(&self, content: &[u8]) -> io::Result<NamedTempFile> {
        // The file is made with mode 0600.
        let mut file = NamedTempFile::new_in(self.folder.join("private"))?;
        file.write_all(content)?;
        file.flush()?;
        Ok(file)
    }

    /// Runs to its end or to the deadline; the words of a process that fails are the error. Dropping the future ends it.
    pub async fn run(
        &self,
        call: Call,
        deadline: Duration,
        class: fn(&str) -> Class,
    ) -> Result<(), StepError> {
        let listens = call.prints_reasons;
        let printed = self.finish(call, deadline, class, listens, MOST_OUTPUT);
        printed.await.map(drop)
    }

    /// The same for what it prints. That may be secret, and is not looked at when it fails.
    pub async fn ask(
        &self,
        call: Call,
        deadline: Duration,
        class: fn(&str) -> Class,
    ) -> Result<String, StepError> {
        self.finish(call, deadline, class, true, MOST_ANSWER).await
    }

    async fn finish(
        &self,
        call: Call,
        deadline: Duration,
        class: fn(&str) -> Class,
        listens: bool,
        most: u64,
    ) -> Result<String, StepError> {
        let (secrets, prints_reasons) = (call.secrets.clone(), call.prints_reasons);
        let work = async {
            let mut child = self.start(&call, listens)?;
            let heard = talk(&mut child, &call.input, most).await?;
            let status = child.wait().await?;
            Ok::<_, io::Error>((status, heard))
        };
        let Ok(ended) = timeout(deadline, work).await else {
            let message = format!("Helm was ended: it took longer than {deadline:?}");
            return Err(StepError::new(Class::TimedOut, message));
        };
        let (status, (printed, said)) = ended.map_err(|error| {
            StepError::new(
                Class::Interrupted,
                format!("Helm could not be run: {error}"),
            )
        })?;
        if status.success() {
            return Ok(printed);
        }
        let said = if prints_reasons {
            format!("{printed}\n{said}")
        } else {
            said
        };
        let shown = output::presentable(&said, &secrets);
        if shown.is_empty() {
            let message = format!("Helm ended without a word: {status}");
            return Err(StepError::new(Class::Interrupted, message));
        }
        Err(StepError::new(class(&said), shown))
    }

    fn start(&self, call: &Call, listens: bool) -> io::Result<Child> {
        let home = self.folder.join("home");
        let mut command = match keeper(std::process::id()) {
            Some((keeper, arguments)) => {
                let mut command = Command::new(keeper);
                command.args(arguments).arg(&self.program);
                command
            }
            None => Command::new(&self.program),
        };
        command
            .args(&call.arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &home)
            .env("HELM_CACHE_HOME", home.join("cache"))
            .env("HELM_CONFIG_HOME", home.join("config"))
            .env("HELM_DATA_HOME", home.join("data"))
            // What Helm learns of an API server it asks anew each time; kept, it would stay for every tenant there ever was.
            .env("KUBECACHEDIR", NOWHERE)
            // A short life on one thread: ADR 0029 has the figures.
            .env("GOMAXPROCS", "1")
            .env("GOGC", "400")
            .envs(call.environment.iter().map(|(name, path)| (*name, path)))
            .current_dir(&home)
            .stdin(Stdio::piped())
            .stdout(if listens {
                Stdio::piped()
            } else {
                Stdio::null()
            })
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
    }
}

/// What Helm is started through so that a controller which is killed takes its Helm along: what goes on behind the back
/// of the next one would be taken for left behind. The first process of a container needs nobody for that: the kernel
/// ends all others with it.
fn keeper(own: u32) -> Option<(&'static str, [&'static str; 3])> {
    (own != 1).then_some(("setpriv", ["--pdeathsig", "KILL", "--"]))
}

/// Gives a process its input and hears it out. Both at once: one that says much before it reads would wait for ever.
async fn talk(child: &mut Child, input: &[u8], most: u64) -> io::Result<(String, String)> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let give = async {
        if let Some(mut stdin) = stdin {
            // One that ends without reading is judged by its words.
            let _ = stdin.write_all(input).await;
        }
    };
    let ((), printed, said) = tokio::join!(give, hear(stdout, most), hear(stderr, MOST_OUTPUT));
    Ok((printed?, said?))
}

async fn hear(stream: Option<impl AsyncRead + Unpin>, most: u64) -> io::Result<String> {
    let mut heard = Vec::new();
    if let Some(mut stream) = stream {
        (&mut stream).take(most).read_to_end(&mut heard).await?;
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
    }
    Ok(String::from_utf8_lossy(&heard).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_process_of_a_container_starts_helm_without_a_keeper() {
        assert_eq!(keeper(1), None);
        assert_eq!(keeper(4711).map(|(keeper, _)| keeper), Some("setpriv"));
    }
}
